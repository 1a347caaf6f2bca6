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
    /// The page of `all`, which are in ascending order. `place` finds the object before the page,
    /// or where it would be, as a binary search does. If it finds neither, this is the first page,
    /// so that a client can delete all objects page by page.
    pub(super) fn of<T, A: Serialize>(
        &self,
        all: &[T],
        place: impl FnOnce(&[T], &str) -> Option<Result<usize, usize>>,
        id: impl Fn(&T) -> String,
        answer: impl Fn(&T) -> A,
    ) -> Json<Value> {
        let found = self.after.as_deref().and_then(|after| place(all, after));
        let rest: Vec<&T> = match (self.order, found) {
            (Order::Asc, Some(Ok(before))) => all[before + 1..].iter().collect(),
            (Order::Asc, Some(Err(next))) => all[next..].iter().collect(),
            (Order::Asc, None) => all.iter().collect(),
            (Order::Desc, Some(Ok(end) | Err(end))) => all[..end].iter().rev().collect(),
            (Order::Desc, None) => all.iter().rev().collect(),
        };
        let shown = &rest[..rest.len().min(self.limit.unwrap_or(LIMIT))];
        Json(json!({
            "object": "list",
            "data": shown.iter().map(|one| answer(one)).collect::<Vec<_>>(),
            "first_id": shown.first().map(|one| id(one)),
            "last_id": shown.last().map(|one| id(one)),
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
        let place = |all: &[usize], after: &str| Some(all.binary_search(&after.parse().ok()?));
        let Json(list) = page(query).unwrap().of(&all, place, ToString::to_string, |one| *one);
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
        // Deleted meanwhile: with a place of its own, and without.
        assert_eq!(shown("limit=1&after=7", 5)["data"], json!([4]));
        assert_eq!(shown("order=asc&after=7", 5)["data"], json!([]));
        assert_eq!(shown("limit=1&after=x", 5)["data"], json!([4]));
    }

    #[test]
    fn an_order_that_is_none_is_refused() {
        for query in ["order=up", "limit=-1", "limit=x"] {
            assert!(page(query).is_none(), "{query}");
        }
    }
}
