//! Data for people and other programs: status, rates, measurement history, and reasons of decisions.

pub mod access;
pub mod allowance;
pub mod attendance;
pub mod bounces;
pub mod history;
pub mod live;
pub mod qos;
pub mod rates;
pub mod refusal;
pub mod totals;
pub mod view;
pub mod why;
