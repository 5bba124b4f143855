//! Sensing by trains says what the links know.

mod mix;
mod place;
mod run;
mod table;
mod world;
