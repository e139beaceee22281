//! The key `server` of a plan: names of presets, or tables with a command.

use super::PlanError;
use super::file::{OneOrMany, Sources};
use crate::axis::{self, AxisError, AxisValue};
use crate::{ServerCommand, ServerName};
use serde::Deserialize;

/// The name of a preset, or how to start a server.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected the name of a server or a table with its `command`"
)]
pub(super) enum RawServer {
    Preset(String),
    Command {
        name: Option<String>,
        command: String,
        config: Option<String>,
        protocols: Option<Vec<String>>,
    },
}

impl Sources {
    /// The servers of a plan, and how those are started that are no presets.
    pub(super) fn servers(
        &self,
        typed: Option<OneOrMany<RawServer>>,
    ) -> Result<(Vec<ServerName>, Vec<ServerCommand>), PlanError> {
        let Some(typed) = typed else {
            return Ok((vec![ServerName::ALTWAY], Vec::new()));
        };
        let mut names = Vec::new();
        let mut commands = Vec::new();
        for server in typed.list() {
            match server {
                RawServer::Preset(name) => {
                    let name = ServerName::read(&name);
                    names.push(name.map_err(|reason| self.value_error("server", reason))?);
                }
                RawServer::Command {
                    name,
                    command,
                    config,
                    protocols,
                } => {
                    let name = name.unwrap_or_else(|| program_of(&command));
                    let name: ServerName = name
                        .parse()
                        .map_err(|error| self.value_error("name", format!("{error}")))?;
                    let spoken =
                        protocols.unwrap_or_else(|| vec!["h1".into(), "h2".into(), "h3".into()]);
                    let protocols =
                        axis::read(&spoken).map_err(|fault| self.axis_error("protocols", fault))?;
                    names.push(name);
                    commands.push(ServerCommand {
                        name,
                        command,
                        config,
                        protocols,
                    });
                }
            }
        }
        if names.is_empty() {
            return Err(self.axis_error("server", AxisError::Empty));
        }
        Ok((names, commands))
    }
}

/// The last part of the program's path, in lower case.
fn program_of(command: &str) -> String {
    let program = command.split_whitespace().next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    name.to_ascii_lowercase()
}
