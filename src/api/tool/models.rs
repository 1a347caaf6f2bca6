//! A tool in the forms in which interfaces of models take it.

use serde_json::{Value, json};

use super::{Inner, Tool};

impl Tool {
    /// The tool as the chat interface of OpenAI and those like it take it.
    ///
    /// ```
    /// # use belljar::{Tool, ToolError};
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

    /// The tool as the messages interface of Anthropic takes it.
    pub fn to_anthropic(&self) -> Value {
        let Inner {
            name,
            description,
            schema,
            ..
        } = &*self.0;
        json!({"name": name, "description": description, "input_schema": schema})
    }

    /// The tool as an MCP server lists it.
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
