//! Tool definitions in the formats of model APIs.

use serde_json::{Value, json};

use super::{Inner, Tool};

impl Tool {
    /// Returns the definition for OpenAI's chat API and compatible APIs.
    ///
    /// ```
    /// # use belljar::Tool;
    /// # use belljar::tool::ToolError;
    /// # use serde_json::{Value, json};
    /// let now = Tool::new("now", json!({"type": "object"}), async |_: Value| Ok("noon"));
    /// assert_eq!(now.to_openai()["function"]["name"], "now");
    /// assert_eq!(now.to_anthropic()["input_schema"], *now.schema());
    /// assert_eq!(now.to_mcp()["inputSchema"], *now.schema());
    /// ```
    pub fn to_openai(&self) -> Value {
        let Inner {
            name,
            description,
            schema,
            ..
        } = &*self.0;
        json!({
            "type": "function",
            "function": {"name": name, "description": description, "parameters": schema},
        })
    }

    /// Returns the definition for Anthropic's messages API.
    pub fn to_anthropic(&self) -> Value {
        let Inner {
            name,
            description,
            schema,
            ..
        } = &*self.0;
        json!({"name": name, "description": description, "input_schema": schema})
    }

    /// Returns the definition as an MCP server lists it.
    pub fn to_mcp(&self) -> Value {
        let Inner {
            name,
            description,
            schema,
            ..
        } = &*self.0;
        json!({"name": name, "description": description, "inputSchema": schema})
    }
}
