//! The operations of the HTTP interface.
//!
//! The HTTP routes and the OpenAPI document are both made from this table, so they describe the same operations.

use super::call::{Call, Reply};
use crate::network::{
    Code, EffectiveConfiguration, InvitationView, JoinRequest, Joined, Network, NewInvitation, NewNode, NodeView, Text,
};
use crate::refusal::Refusal;
use axum::http::{Method, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// The group of senders that may make a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    /// Everybody.
    Everybody,
    /// The holder of the administrator's token.
    Administrator,
    /// The administrator, and the node that the path names.
    Node,
}

/// Which of the HTTP headers `If-Match` and `If-None-Match` an operation accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conditions {
    /// The operation accepts neither header.
    None,
    /// `If-Match`, or `If-None-Match: *` for a new record; one of them is required.
    Write,
    /// `If-None-Match`: the answer is 304 if nothing has changed.
    Read,
}

/// Makes the schema of a type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// An operation of the interface.
pub struct Operation {
    /// HTTP method of the request.
    pub method: Method,
    /// Path of the request's URL, in which `{name}` or `{id}` is a parameter.
    pub path: &'static str,
    /// Identifier of the operation in the OpenAPI document.
    pub id: &'static str,
    /// Purpose of the operation, in one line.
    pub summary: &'static str,
    /// Senders that may make the request.
    pub audience: Audience,
    /// Headers `If-Match` and `If-None-Match` that the operation accepts.
    pub conditions: Conditions,
    /// Schema of the request's body; `None`: the request has no body.
    pub takes: Option<SchemaOf>,
    /// HTTP status of the answer if the operation succeeds.
    pub status: StatusCode,
    /// Schema of the answer's body; `None`: the answer has no body.
    pub gives: Option<SchemaOf>,
    /// Function that performs the operation.
    pub run: fn(&Network, &Call) -> Result<Reply, Refusal>,
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Returns all operations on the network.
pub fn operations() -> Vec<Operation> {
    use Audience::{Administrator, Everybody, Node};
    let new = |method, path, id, summary, audience, run| Operation {
        method,
        path,
        id,
        summary,
        audience,
        conditions: Conditions::None,
        takes: None,
        status: StatusCode::OK,
        gives: None,
        run,
    };
    let get = |path, id, summary, audience, gives, run| Operation {
        gives: Some(gives),
        ..new(Method::GET, path, id, summary, audience, run)
    };
    let put = |path, id, summary, takes, gives, run| Operation {
        conditions: Conditions::Write,
        takes: Some(takes),
        gives,
        ..new(Method::PUT, path, id, summary, Administrator, run)
    };
    let post = |path, id, summary, audience, takes, gives, run| Operation {
        takes: Some(takes),
        gives: Some(gives),
        ..new(Method::POST, path, id, summary, audience, run)
    };
    vec![
        get(
            "/v1/nodes",
            "listNodes",
            "All nodes, in the order of their names",
            Administrator,
            schema::<Vec<NodeView>>,
            list_nodes,
        ),
        get("/v1/nodes/{name}", "readNode", "A node", Node, schema::<NodeView>, read_node),
        put(
            "/v1/nodes/{name}",
            "writeNode",
            "Add a node, or change it",
            schema::<NewNode>,
            Some(schema::<NodeView>),
            write_node,
        ),
        Operation {
            conditions: Conditions::Write,
            status: StatusCode::NO_CONTENT,
            ..new(
                Method::DELETE,
                "/v1/nodes/{name}",
                "removeNode",
                "Remove a node with its configuration and invitations",
                Administrator,
                remove_node,
            )
        },
        get(
            "/v1/nodes/{name}/configuration",
            "readConfiguration",
            "The desired configuration of a node",
            Administrator,
            schema::<Text>,
            read_configuration,
        ),
        Operation {
            status: StatusCode::NO_CONTENT,
            ..put(
                "/v1/nodes/{name}/configuration",
                "writeConfiguration",
                "Replace the desired configuration of a node",
                schema::<Text>,
                None,
                write_configuration,
            )
        },
        Operation {
            conditions: Conditions::Read,
            ..get(
                "/v1/nodes/{name}/effective",
                "readEffective",
                "What the node runs: its configuration with the rules of the policy",
                Node,
                schema::<EffectiveConfiguration>,
                read_effective,
            )
        },
        get(
            "/v1/policy",
            "readPolicy",
            "The policy: [[allow]] and [[allow-test]] tables",
            Administrator,
            schema::<Text>,
            read_policy,
        ),
        Operation {
            status: StatusCode::NO_CONTENT,
            ..put(
                "/v1/policy",
                "writePolicy",
                "Replace the policy, if its tests pass",
                schema::<Text>,
                None,
                write_policy,
            )
        },
        get(
            "/v1/invitations",
            "listInvitations",
            "All invitations, without their codes",
            Administrator,
            schema::<Vec<InvitationView>>,
            list_invitations,
        ),
        Operation {
            status: StatusCode::CREATED,
            ..post(
                "/v1/invitations",
                "invite",
                "Make an invitation; its code is shown once",
                Administrator,
                schema::<NewInvitation>,
                schema::<Code>,
                invite,
            )
        },
        Operation {
            status: StatusCode::NO_CONTENT,
            ..new(Method::DELETE, "/v1/invitations/{id}", "withdraw", "Withdraw an invitation", Administrator, withdraw)
        },
        post(
            "/v1/join",
            "join",
            "Join as the node of an invitation",
            Everybody,
            schema::<JoinRequest>,
            schema::<Joined>,
            join,
        ),
    ]
}

fn list_nodes(network: &Network, _: &Call) -> Result<Reply, Refusal> {
    Reply::of(StatusCode::OK, None, &network.nodes()?)
}

fn read_node(network: &Network, call: &Call) -> Result<Reply, Refusal> {
    let node = network.node(&call.name)?;
    Reply::of(StatusCode::OK, Some(node.revision.to_string()), &node)
}

fn write_node(network: &Network, call: &Call) -> Result<Reply, Refusal> {
    let node = network.put_node(&call.name, call.expected()?, &call.read()?)?;
    Reply::of(StatusCode::OK, Some(node.revision.to_string()), &node)
}

fn remove_node(network: &Network, call: &Call) -> Result<Reply, Refusal> {
    network.remove_node(&call.name, call.expected()?)?;
    Ok(Reply::empty(StatusCode::NO_CONTENT, None))
}

fn read_configuration(network: &Network, call: &Call) -> Result<Reply, Refusal> {
    let stored = network.configuration(&call.name)?;
    Reply::of(StatusCode::OK, Some(stored.revision.to_string()), &stored.record)
}

fn write_configuration(network: &Network, call: &Call) -> Result<Reply, Refusal> {
    let revision = network.put_configuration(&call.name, call.expected()?, &call.read()?)?;
    Ok(Reply::empty(StatusCode::NO_CONTENT, Some(revision.to_string())))
}

fn read_effective(network: &Network, call: &Call) -> Result<Reply, Refusal> {
    let effective = network.effective(&call.name)?;
    match call.known.as_ref() == Some(&effective.digest) {
        true => Ok(Reply::empty(StatusCode::NOT_MODIFIED, Some(effective.digest))),
        false => Reply::of(StatusCode::OK, Some(effective.digest.clone()), &effective),
    }
}

fn read_policy(network: &Network, _: &Call) -> Result<Reply, Refusal> {
    let stored = network.policy()?;
    Reply::of(StatusCode::OK, Some(stored.revision.to_string()), &stored.record)
}

fn write_policy(network: &Network, call: &Call) -> Result<Reply, Refusal> {
    let revision = network.put_policy(call.expected()?, &call.read()?)?;
    Ok(Reply::empty(StatusCode::NO_CONTENT, Some(revision.to_string())))
}

fn list_invitations(network: &Network, _: &Call) -> Result<Reply, Refusal> {
    Reply::of(StatusCode::OK, None, &network.invitations()?)
}

fn invite(network: &Network, call: &Call) -> Result<Reply, Refusal> {
    Reply::of(StatusCode::CREATED, None, &network.invite(&call.read::<NewInvitation>()?, "administrator")?)
}

fn withdraw(network: &Network, call: &Call) -> Result<Reply, Refusal> {
    network.withdraw(&call.name)?;
    Ok(Reply::empty(StatusCode::NO_CONTENT, None))
}

fn join(network: &Network, call: &Call) -> Result<Reply, Refusal> {
    Reply::of(StatusCode::OK, None, &network.join(&call.read()?)?)
}
