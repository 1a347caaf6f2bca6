//! The request handler of the protocol.

use std::sync::Arc;

use axum::http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, DiscoverResult, ErrorData, Implementation,
    InitializeRequestParams, InitializeResult, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ResourceTemplate, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::OnceCell;

use super::arguments::{Call, Wrong};
use super::catalog;
use super::description::Description;
use super::options::Options;
use super::uri::TEMPLATES;
use crate::service::Service;
use crate::service::owner::Owner;

/// How long clients may cache lists, in milliseconds. They change only with the server.
const LISTS_LAST: u64 = 3_600_000;

/// Answers a client's requests. Clones share the same state.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) shared: Arc<Shared>,
}

/// State shared by all connections.
pub(super) struct Shared {
    pub service: Service,
    pub options: Options,
    /// The owner over standard streams. Over HTTP each request has its own.
    pub owner: Option<Owner>,
    about: OnceCell<Description>,
}

impl Handler {
    pub(super) fn new(service: Service, options: Options, owner: Option<Owner>) -> Self {
        Self {
            shared: Arc::new(Shared {
                service,
                options,
                owner,
                about: OnceCell::new(),
            }),
        }
    }

    /// The description for models, queried once.
    pub(super) async fn about(&self) -> &Description {
        let shared = &self.shared;
        let ask =
            || Description::of(&shared.service, shared.options.image(), shared.options.listing());
        shared.about.get_or_init(ask).await
    }

    fn owner(&self, context: &RequestContext<RoleServer>) -> Result<Owner, ErrorData> {
        if let Some(owner) = &self.shared.owner {
            return Ok(owner.clone());
        }
        let parts = context.extensions.get::<Parts>();
        let owner = parts.and_then(|parts| parts.extensions.get::<Owner>());
        owner.cloned().ok_or_else(|| ErrorData::internal_error("nobody asks", None))
    }

    fn described(&self, instructions: Option<String>) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let us = Implementation::new("belljar", env!("CARGO_PKG_VERSION"))
            .with_title("belljar")
            .with_description("Runs Python in a sandbox");
        let mut config = ServerConfig::new(capabilities).with_server_info(us);
        config.instructions = instructions;
        config
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let about = self.shared.about.get();
        self.described(about.map(|about| about.instructions.clone()))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.about().await;
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.about().await;
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = ListToolsResult::with_all_items(self.tools(&self.about().await.tool));
        listed.ttl_ms = Some(LISTS_LAST);
        listed.cache_scope = Some(CacheScope::Private);
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools("").into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let owner = self.owner(&context)?;
        let result = match Call::of(&request.name, request.arguments) {
            Ok(call) => self.call(&owner, call, &context).await,
            Err(Wrong::Arguments(why)) => Self::refused(&format!("{}: {why}", request.name)),
            Err(Wrong::Tool) => {
                let message = format!("unknown tool {}", request.name);
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let owner = self.owner(&context)?;
        self.resources(&owner, page.and_then(|page| page.cursor)).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = TEMPLATES.map(|(form, name, description)| {
            ResourceTemplate::new(form, name).with_description(description)
        });
        let mut listed = ListResourceTemplatesResult::with_all_items(templates.into());
        listed.ttl_ms = Some(LISTS_LAST);
        listed.cache_scope = Some(CacheScope::Public);
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let owner = self.owner(&context)?;
        Ok(self.resource(&owner, &request.uri).await?.into())
    }

    /// There are no prompts, and the capabilities do not offer any.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }
}

impl Handler {
    fn tools(&self, about: &str) -> Vec<Tool> {
        catalog::tools(about, self.shared.options.functions.is_some())
    }
}
