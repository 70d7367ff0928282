//! `longhaul controller token`.

use anyhow::Result;
use api::rest::{ApiToken, Check, RoleWord, TokenMade, TokenRequest};
use serde_json::json;

use super::client::{Content, Controller, part};
use super::show;
use super::transfer::tell;
use crate::action::block_on;
use crate::args::controller::token::{ApiTokenWhat, NewArgs, RoleName};
use crate::environment::Environment;
use crate::exit::{self, usage};
use crate::output::{note, print};

const TOKENS: &str = "/api/v1/tokens";

/// What is done with tokens, and whose they are.
pub(crate) struct ApiTokens {
    what: ApiTokenWhat,
    controller: Controller,
}

impl ApiTokens {
    /// Checks what was written.
    ///
    /// # Errors
    /// When no controller is named, or what lets us in is missing.
    pub(crate) fn of(what: ApiTokenWhat, environment: &Environment) -> Result<ApiTokens> {
        let reach = match &what {
            ApiTokenWhat::New(args) => &args.reach,
            ApiTokenWhat::Ls { reach } | ApiTokenWhat::Revoke { reach, .. } => reach,
        };
        Ok(ApiTokens { controller: Controller::of(reach, environment)?, what })
    }

    /// Asks.
    ///
    /// # Errors
    /// When the controller cannot be reached, or says no.
    pub(crate) fn run(self) -> Result<u8> {
        crate::action::log_to_stderr("off");
        block_on(self.ask())
    }

    pub(super) async fn ask(self) -> Result<u8> {
        let controller = &self.controller;
        match self.what {
            ApiTokenWhat::New(args) => new(args, controller).await,
            ApiTokenWhat::Ls { .. } => {
                let tokens: Vec<ApiToken> = controller.get(TOKENS).await?;
                tell(controller, &json!({ "tokens": tokens }), || show::tokens(&tokens))
            }
            ApiTokenWhat::Revoke { names, .. } => {
                for name in &names {
                    let path = format!("{TOKENS}/{}", part(name));
                    controller.bytes("DELETE", &path, Content::None, None).await?;
                    if !controller.json {
                        note(&format!("token {} is revoked", show::plain(name)));
                    }
                }
                if controller.json {
                    print(format!("{}\n", json!({ "removed": names })))?;
                }
                Ok(exit::DONE)
            }
        }
    }
}

async fn new(args: NewArgs, controller: &Controller) -> Result<u8> {
    let role = match args.role {
        RoleName::Viewer => RoleWord::Viewer,
        RoleName::Submitter => RoleWord::Submitter,
        RoleName::Operator => RoleWord::Operator,
        RoleName::Admin => RoleWord::Admin,
    };
    let good_seconds = args.expires.map(|span| span.get().as_secs());
    let request = TokenRequest { name: args.name, role, collaboration: args.collaboration, good_seconds };
    request.check().map_err(|wrong| usage(wrong.to_string()))?;
    let made: TokenMade = controller.ask("POST", TOKENS, Content::json(&request)?).await?;
    if !controller.json {
        let until = made.expires_at.map_or_else(|| "for ever".to_owned(), |at| format!("until {}", show::seconds(at)));
        note(&format!("token {}, good {until}: it is shown this once", show::plain(&made.name)));
    }
    tell(controller, &made, || format!("{}\n", made.token))
}
