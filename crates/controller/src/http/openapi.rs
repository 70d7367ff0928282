//! The OpenAPI 3.1 document, made of the routes and of the types that they name.

use api::rest::{MEDIA_TYPE, Problem};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::routes::{ROUTES, Route};

/// The document.
#[must_use]
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = operation(route, &mut generator);
    }
    let problem = generator.subschema_for::<Problem>();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Longhaul controller",
            "version": "1",
            "description": "Plans transfers, leases rates to agents, and says why. Rates are b/s of IP packets, sizes are file bytes, times are RFC 3339. A role may do what those before it may: viewer, submitter, operator, admin."
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "responses": {
                "Problem": {"description": "What went wrong, and the way out (RFC 9457)", "content": {MEDIA_TYPE: {"schema": problem}}}
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}
        },
        "security": [{"token": []}]
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": name(route),
        "summary": route.summary,
        "responses": responses(route, generator),
    });
    match route.deed {
        Some(deed) => operation["x-least-role"] = json!(deed.least()),
        None => operation["security"] = json!([]),
    }
    let parameters = parameters(route, generator);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let (Some(media), Some(body)) = (route.takes, route.body) {
        let schema = body(generator);
        // Reasons may be left out, and with them the body.
        let required = !schema.as_value()["$ref"].as_str().is_some_and(|name| name.ends_with("/ModeRequest"));
        operation["requestBody"] = json!({"required": required, "content": {media.names()[0]: {"schema": schema}}});
    }
    operation
}

/// Unique, and the same in every version.
fn name(route: &Route) -> String {
    let root = if route.path.starts_with("/api/") { "" } else { "Root" };
    format!("{:?}{root}", route.call)
}

fn responses(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut done = json!({"description": "Done"});
    if let Some(answer) = route.answer {
        done["content"] = json!({route.gives: {"schema": answer(generator)}});
    }
    json!({route.status.to_string(): done, "default": {"$ref": "#/components/responses/Problem"}})
}

fn parameters(route: &Route, generator: &mut SchemaGenerator) -> Vec<Value> {
    let mut all = Vec::new();
    for part in route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
        all.push(json!({"name": part, "in": "path", "required": true, "schema": {"type": "string"}}));
    }
    if let Some(query) = route.query {
        let schema = query(generator);
        for (field, schema) in schema.as_value()["properties"].as_object().into_iter().flatten() {
            all.push(json!({"name": field, "in": "query", "schema": schema}));
        }
    }
    let header = |name: &str, what: &str| json!({"name": name, "in": "header", "description": what, "schema": {"type": "string"}});
    if route.keyed {
        all.push(header("Idempotency-Key", "A request that is sent again with the same key is not done again"));
    }
    if route.gives == "text/event-stream" {
        all.push(header("Last-Event-ID", "Number of the last event that was seen"));
    }
    all
}
