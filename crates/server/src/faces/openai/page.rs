//! Pages of lists.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Fault;
use crate::http::app::App;
use crate::http::extract::Query;

/// Default and maximum number of objects on a page.
const LIMIT: usize = 20;
const MAX: usize = 100;

/// The requested page.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Page {
    after: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    order: Order,
    /// Only containers with this name.
    pub name: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Asc,
    #[default]
    Desc,
}

impl FromRequestParts<App> for Page {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Fault> {
        let Query(page) = Query::<Self>::from_request_parts(parts, app).await?;
        match page.limit {
            Some(limit) if !(1..=MAX).contains(&limit) => {
                let message = format!("limit is {limit}; it must be from 1 to {MAX}");
                Err(Fault::invalid("bad_query", message))
            }
            _ => Ok(page),
        }
    }
}

impl Page {
    /// The page of `all`, which are oldest first. If the object before the page was deleted, this
    /// is the first page, so that a client can delete all objects page by page.
    pub(super) fn of<T, A: Serialize>(
        &self,
        mut all: Vec<T>,
        id: impl Fn(&T) -> String,
        answer: impl Fn(&T) -> A,
    ) -> Json<Value> {
        if self.order == Order::Desc {
            all.reverse();
        }
        let after = self.after.as_ref();
        let start = after.and_then(|after| all.iter().position(|one| id(one) == *after));
        let rest = &all[start.map_or(0, |start| start + 1)..];
        let shown = &rest[..rest.len().min(self.limit.unwrap_or(LIMIT))];
        Json(json!({
            "object": "list",
            "data": shown.iter().map(answer).collect::<Vec<_>>(),
            "first_id": shown.first().map(&id),
            "last_id": shown.last().map(&id),
            "has_more": shown.len() < rest.len(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> Option<Page> {
        let uri = format!("/?{query}").parse().unwrap();
        axum::extract::Query::try_from_uri(&uri).ok().map(|axum::extract::Query(page)| page)
    }

    fn shown(query: &str, count: usize) -> Value {
        let all: Vec<usize> = (0..count).collect();
        let Json(list) = page(query).unwrap().of(all, ToString::to_string, |one| *one);
        list
    }

    #[test]
    fn pages_follow_each_other() {
        let first = shown("limit=2", 5);
        assert_eq!(first["data"], json!([4, 3]));
        assert_eq!((&first["first_id"], &first["last_id"]), (&json!("4"), &json!("3")));
        assert_eq!(first["has_more"], true);
        let last = shown("limit=2&after=1", 5);
        assert_eq!((&last["data"], &last["has_more"]), (&json!([0]), &json!(false)));
        assert_eq!(shown("order=asc&after=1&limit=2", 5)["data"], json!([2, 3]));
        assert_eq!(shown("after=0", 5)["data"], json!([]));
        assert_eq!(shown("", 0)["last_id"], Value::Null);
        assert_eq!(shown("", 30)["data"].as_array().unwrap().len(), LIMIT);
        // Deleted meanwhile.
        assert_eq!(shown("limit=1&after=7", 5)["data"], json!([4]));
    }

    #[test]
    fn an_order_that_is_none_is_refused() {
        for query in ["order=up", "limit=-1", "limit=x"] {
            assert!(page(query).is_none(), "{query}");
        }
    }
}
