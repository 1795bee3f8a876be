//! Options in JSON, as callers pass them.

use crate::error::FieldError;
use serde_json::{Map, Value};

/// A [`FieldError::Usage`].
pub fn usage(message: impl Into<String>) -> FieldError {
    FieldError::Usage(message.into())
}

/// A JSON object whose keys must all be read: an unread key is an error.
pub struct Object {
    map: Map<String, Value>,
    what: &'static str,
}

impl Object {
    /// Parses text.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for text that is no JSON object.
    pub fn parse(text: &str, what: &'static str) -> Result<Self, FieldError> {
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Self { map, what }),
            Ok(_) => Err(usage(format!("{what}: not a JSON object"))),
            Err(e) => Err(usage(format!("{what}: {e}"))),
        }
    }
    /// Wraps a value.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for another value.
    pub fn of(value: Value, what: &'static str) -> Result<Self, FieldError> {
        match value {
            Value::Object(map) => Ok(Self { map, what }),
            _ => Err(usage(format!("{what}: not a JSON object"))),
        }
    }
    /// Takes a key; null counts as absent.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|v| !v.is_null())
    }
    /// The error for a key with a value of another form.
    pub fn wrong(&self, key: &str, form: &str) -> FieldError {
        usage(format!("{}: '{key}' must be {form}", self.what))
    }
    /// Whether a key has a value.
    pub fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|v| !v.is_null())
    }
    /// Takes a number.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for a value of another type.
    pub fn number(&mut self, key: &str) -> Result<Option<f64>, FieldError> {
        match self.take(key) {
            None => Ok(None),
            Some(v) => v.as_f64().map(Some).ok_or_else(|| self.wrong(key, "a number")),
        }
    }
    /// Takes a number that must be positive.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for any other value.
    pub fn positive(&mut self, key: &str) -> Result<Option<f64>, FieldError> {
        match self.number(key)? {
            Some(v) if !(v > 0.0) => Err(self.wrong(key, "a positive number")),
            v => Ok(v),
        }
    }
    /// Takes a whole number.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for any other value.
    pub fn whole(&mut self, key: &str) -> Result<Option<u64>, FieldError> {
        match self.take(key) {
            None => Ok(None),
            Some(v) => v.as_u64().map(Some).ok_or_else(|| self.wrong(key, "a whole number, 0 or more")),
        }
    }
    /// Takes a truth value.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for any other value.
    pub fn truth(&mut self, key: &str) -> Result<bool, FieldError> {
        match self.take(key) {
            None => Ok(false),
            Some(v) => v.as_bool().ok_or_else(|| self.wrong(key, "true or false")),
        }
    }
    /// Takes text.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for any other value.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, FieldError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(_) => Err(self.wrong(key, "text")),
        }
    }
    /// Takes a list of texts.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for any other value.
    pub fn texts(&mut self, key: &str) -> Result<Vec<String>, FieldError> {
        let Some(v) = self.take(key) else { return Ok(Vec::new()) };
        let list = v.as_array().ok_or_else(|| self.wrong(key, "a list of texts"))?;
        list.iter().map(|s| s.as_str().map(str::to_owned).ok_or_else(|| self.wrong(key, "a list of texts"))).collect()
    }
    /// Takes a list of numbers.
    ///
    /// # Errors
    /// [`FieldError::Usage`] if `number` refuses one; the message says that the key must be `form`.
    pub fn numbers<T>(
        &mut self,
        key: &str,
        form: &str,
        number: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>, FieldError> {
        let Some(v) = self.take(key) else { return Ok(None) };
        let list = v.as_array().and_then(|v| v.iter().map(number).collect::<Option<Vec<T>>>());
        list.map(Some).ok_or_else(|| self.wrong(key, form))
    }
    /// Ends the reading.
    ///
    /// # Errors
    /// [`FieldError::Usage`] naming a key that was not taken.
    pub fn done(self) -> Result<(), FieldError> {
        match self.map.iter().find(|(_, v)| !v.is_null()) {
            None => Ok(()),
            Some((k, _)) => Err(usage(format!("{}: there is no option '{k}'", self.what))),
        }
    }
}
