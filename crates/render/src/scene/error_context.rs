//! The subject of an error, in the words of the user's scene.

use super::document::SceneDocument;
use super::objects::{LinesFrom, MeshFrom, Object, Paint};
use field::error::FieldError;
use serde_json::Value;

/// No colour.
const NONE: Paint = Paint { map: None, rgb: [0; 3] };

/// An error of an object, with its place in the scene: `objects.2.color`.
pub(super) fn placed(document: &SceneDocument, number: usize, e: FieldError) -> FieldError {
    if matches!(e, FieldError::At { .. }) {
        return e;
    }
    let name = match &e {
        FieldError::Unknown { name, .. } | FieldError::Lacking { name, .. } => name.as_str(),
        _ => "",
    };
    let of_colour = |paint: &Paint| colour(document, number, paint).filter(|(_, field)| *field == name);
    let key = match &document.objects[number] {
        Object::Lines { from, paint, .. } => match (of_colour(paint), from) {
            (Some((place, _)), _) => return e.at(place),
            (None, LinesFrom::Trace(options)) => trace_key(options, name, &e),
            (None, LinesFrom::File(_)) => "file",
        },
        Object::Surface { paint, .. } => match of_colour(paint) {
            Some((place, _)) => return e.at(place),
            None => "surface",
        },
        Object::Mesh { from, paint, .. } => match (of_colour(paint), from) {
            (Some((place, _)), _) => return e.at(place),
            (None, MeshFrom::Contour { near: Some(_), .. }) if of_point(&e) => "near",
            (None, MeshFrom::Contour { .. }) => "field",
            (None, MeshFrom::Slice { .. }) => "normal",
        },
        Object::Cores { paint, .. } => match of_colour(paint) {
            Some((place, _)) => return e.at(place),
            None => "method",
        },
        Object::Volume(_) => match of_colour(document.objects[number].paint().unwrap_or(&NONE)) {
            Some((place, _)) => return e.at(place),
            None => "field",
        },
        Object::Outline { .. } => "zone",
    };
    e.at(format!("objects.{number}.{key}"))
}

/// An error of a map's field, with its place in the scene.
pub(super) fn placed_in_map(document: &SceneDocument, map: &str, e: FieldError) -> FieldError {
    let field = document.map(map).map_or("", |m| m.field.as_str());
    match document.objects.iter().position(|o| o.uses(map)).filter(|_| field == map) {
        Some(number) => e.at(format!("objects.{number}.color")),
        None => e.at(format!("maps.{map}.field")),
    }
}

/// The place of the field that colours an object, and the field. A map without a written name has its own name.
fn colour<'a>(document: &'a SceneDocument, number: usize, paint: &Paint) -> Option<(String, &'a str)> {
    let (name, map) = paint.map.as_ref().and_then(|name| Some((name, document.map(name)?)))?;
    let place = if map.field == *name { format!("objects.{number}.color") } else { format!("maps.{name}.field") };
    Some((place, map.field.as_str()))
}

/// Whether an error is about the point of a local isosurface.
fn of_point(e: &FieldError) -> bool {
    matches!(e, FieldError::Usage(said) if said.contains("the point"))
}

/// The key of a trace behind an error: the key that holds the name, or the text cited by the message.
fn trace_key(options: &Value, name: &str, e: &FieldError) -> &'static str {
    let said = e.to_string();
    let cited = |key: &str| options[key].as_str().is_some_and(|text| said.contains(&format!("'{}'", text.trim())));
    let listed = options["scalars"].as_array().is_some_and(|all| all.iter().any(|s| s.as_str() == Some(name)));
    match () {
        () if !name.is_empty() && options["field"].as_str() == Some(name) => "trace.field",
        () if listed => "trace.scalars",
        () if cited("stop") => "trace.stop",
        () if cited("seeds") || matches!(e, FieldError::Unknown { what: "zone", .. }) => "trace.seeds",
        () if cited("field") => "trace.field",
        () => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_key_that_it_is_about() {
        let text = r#"{"source": {}, "size": [9, 9], "objects": [
            {"kind": "surface", "zone": "z", "axis": "k", "index": 1, "map": "m"},
            {"kind": "lines", "map": "own", "trace": {"field": "mach", "scalars": ["p"], "stop": "mach >", "seeds": "ijk:Z:1,1,1"}},
            {"kind": "outline", "zone": "y"}],
            "maps": {"m": {"field": "m", "lut": [[0, 0, 0]]}, "own": {"field": "q", "lut": [[0, 0, 0]]}}}"#;
        let document = SceneDocument::parse(text).unwrap();
        let unknown = |what, name: &str| FieldError::Unknown { what, name: name.into(), known: Vec::new() };
        let usage = |text: &str| FieldError::Usage(text.into());
        for (number, e, place) in [
            (0, unknown("field", "m"), "objects.0.color"),
            (0, unknown("zone", "z"), "objects.0.surface"),
            (0, usage("z: k = 99 is not within 1 to 3"), "objects.0.surface"),
            (1, unknown("field", "q"), "maps.own.field"),
            (1, unknown("field", "mach"), "objects.1.trace.field"),
            (1, unknown("field", "p"), "objects.1.trace.scalars"),
            (1, usage("'mach >', column 7: expected a number"), "objects.1.trace.stop"),
            (1, unknown("zone", "Z"), "objects.1.trace.seeds"),
            (2, unknown("zone", "y"), "objects.2.zone"),
        ] {
            let said = placed(&document, number, e).to_string();
            assert!(said.starts_with(&format!("{place}: ")), "{place}: {said}");
        }
        assert!(placed_in_map(&document, "m", usage("no")).to_string().starts_with("objects.0.color: "));
        assert!(placed_in_map(&document, "own", usage("no")).to_string().starts_with("maps.own.field: "));
        assert!(matches!(placed(&document, 0, FieldError::Interrupted), FieldError::Interrupted));
    }
}
