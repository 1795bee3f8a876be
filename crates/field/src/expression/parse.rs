//! From text to an [`Expression`].
//!
//! ```text
//! condition  = both {"or" both}
//! both       = negation {"and" negation}
//! negation   = "not" negation | comparison
//! comparison = sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
//! sum        = product {("+" | "-") product}
//! product    = unary {("*" | "/") unary}
//! unary      = "-" unary | power
//! power      = postfix [("^" | "**") unary]
//! postfix    = primary {".x" | ".y" | ".z" | "[" digit "]"}
//! primary    = number [unit] | name | function "(" condition {"," condition} ")" | "(" condition ")"
//! unit       = "'" text "'"
//! name       = letter or "_", then letters, digits, "_", but none of the words above; anything else in double quotes
//! ```

use super::{Expression, ExpressionKind, Function, Operator, Wrong};

/// Limits of length and nesting, which bound the stack. People write shorter expressions.
const LONGEST: usize = 4096;
const DEEPEST: usize = 48;
/// Limit of operators and names: a chain of them is a tree as deep.
const MOST_PARTS: usize = 400;

/// Words that are not names.
const WORDS: [&str; 3] = ["and", "or", "not"];

/// Whether a name needs no quotes.
pub fn is_plain(name: &str) -> bool {
    let mut chars = name.chars();
    !WORDS.contains(&name)
        && chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A plain name with blanks for underscores; expressions stay as they are.
pub fn in_words(field: &str) -> String {
    if is_plain(field) {
        field.replace('_', " ")
    } else {
        field.to_owned()
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Quoted(String),
    Unit(String),
    Sign(&'static str),
    End,
}

/// Longer ones first.
const SIGNS: [&str; 21] =
    ["**", "<=", ">=", "==", "!=", "+", "-", "*", "/", "^", "<", ">", "(", ")", "[", "]", ",", ".x", ".y", ".z", "."];

struct TokenReader<'a> {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
    parts: usize,
    text: &'a str,
}

/// Parses an expression.
///
/// ```
/// use field::expression::parse::parse;
/// assert_eq!(parse("1 + 2 * magnitude(velocity)").unwrap().to_string(), "(1.0) + ((2.0) * (magnitude(velocity)))");
/// assert_eq!(parse("min(density)").unwrap_err().what, "min() takes 2 arguments, not 1");
/// ```
///
/// # Errors
/// [`Wrong`], with the column and the expected token.
pub fn parse(text: &str) -> Result<Expression, Wrong> {
    if text.len() > LONGEST {
        return Err(Wrong::at(1, format!("an expression has at most {LONGEST} characters")));
    }
    let mut r = TokenReader { tokens: tokens(text)?, at: 0, depth: 0, parts: 0, text };
    let e = r.condition()?;
    match r.next() {
        (_, Token::End) => Ok(e),
        (column, token) => Err(Wrong::at(column, format!("expected an operator or the end, found {}", shown(&token)))),
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::Number(v) => format!("the number {v}"),
        Token::Name(n) => format!("'{n}'"),
        Token::Quoted(n) => format!("\"{n}\""),
        Token::Unit(u) => format!("the unit '{u}'"),
        Token::Sign(s) => format!("'{s}'"),
        Token::End => "the end".to_owned(),
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Wrong> {
    let mut out = Vec::new();
    let mut rest = text;
    let column = |rest: &str| text[..text.len() - rest.len()].chars().count() + 1;
    loop {
        rest = rest.trim_start();
        let at = column(rest);
        let Some(first) = rest.chars().next() else {
            out.push((at, Token::End));
            return Ok(out);
        };
        let number = first.is_ascii_digit() || first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit());
        let (token, len) = if number {
            let len = number_len(rest.as_bytes());
            let value = rest[..len].parse::<f64>().ok().filter(|v| v.is_finite());
            (Token::Number(value.ok_or_else(|| Wrong::at(at, format!("'{}' is not a number", &rest[..len])))?), len)
        } else if first.is_ascii_alphabetic() || first == '_' {
            let len = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            (Token::Name(rest[..len].to_owned()), len)
        } else if first == '\'' || first == '"' {
            let Some(end) = rest[1..].find(first) else {
                return Err(Wrong::at(at, format!("a quote {first} begins here and does not end")));
            };
            let inside = rest[1..=end].to_owned();
            (if first == '"' { Token::Quoted(inside) } else { Token::Unit(inside) }, end + 2)
        } else if let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(**s)) {
            (Token::Sign(sign), sign.len())
        } else {
            return Err(Wrong::at(at, format!("'{first}' means nothing here")));
        };
        rest = &rest[len..];
        // `v.xyz` is not a component.
        if matches!(token, Token::Sign(".x" | ".y" | ".z"))
            && rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        {
            return Err(Wrong::at(at, "a component is .x, .y or .z"));
        }
        out.push((at, token));
    }
}

/// Length of the number at the front.
fn number_len(b: &[u8]) -> usize {
    let digits = |mut n: usize| {
        while b.get(n).is_some_and(u8::is_ascii_digit) {
            n += 1;
        }
        n
    };
    let mut n = digits(0);
    if b.get(n) == Some(&b'.') {
        n = digits(n + 1);
    }
    if matches!(b.get(n), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(b.get(n + 1), Some(b'+' | b'-')));
        let end = digits(n + 1 + sign);
        if end > n + 1 + sign {
            n = end;
        }
    }
    n
}

impl TokenReader<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |t| &t.1)
    }

    fn column(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.chars().count() + 1, |t| t.0)
    }

    fn next(&mut self) -> (usize, Token) {
        let token = (self.column(), self.peek().clone());
        self.at += 1;
        token
    }

    fn eat(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        let Token::Sign(s) = *self.peek() else { return None };
        if !signs.contains(&s) {
            return None;
        }
        self.at += 1;
        Some(s)
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), Wrong> {
        match self.eat(&[sign]) {
            Some(_) => Ok(()),
            None => Err(Wrong::at(self.column(), format!("expected '{sign}', found {}", shown(self.peek())))),
        }
    }

    fn part(&mut self, column: usize, kind: ExpressionKind) -> Result<Expression, Wrong> {
        self.parts += 1;
        if self.parts > MOST_PARTS {
            return Err(Wrong::at(column, format!("an expression has at most {MOST_PARTS} parts; name some of them")));
        }
        Ok(Expression { column, kind })
    }

    /// Runs `f` one level deeper.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, Wrong>) -> Result<T, Wrong> {
        if self.depth >= DEEPEST {
            return Err(Wrong::at(self.column(), format!("nested more than {DEEPEST} deep")));
        }
        self.depth += 1;
        let out = f(self);
        self.depth -= 1;
        out
    }

    /// Skips a word if it comes next. Returns whether it did.
    fn word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Name(n) if n == word);
        self.at += usize::from(found);
        found
    }

    fn condition(&mut self) -> Result<Expression, Wrong> {
        self.joined("or", Operator::Or, Self::both)
    }

    fn both(&mut self) -> Result<Expression, Wrong> {
        self.joined("and", Operator::And, Self::negation)
    }

    /// Parts joined by a word, from the left.
    fn joined(
        &mut self,
        word: &str,
        operator: Operator,
        part: impl Fn(&mut Self) -> Result<Expression, Wrong>,
    ) -> Result<Expression, Wrong> {
        let mut left = part(self)?;
        loop {
            let column = self.column();
            if !self.word(word) {
                return Ok(left);
            }
            let right = part(self)?;
            left = self.part(column, ExpressionKind::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn negation(&mut self) -> Result<Expression, Wrong> {
        let column = self.column();
        if !self.word("not") {
            return self.comparison();
        }
        self.deeper(|r| {
            let e = r.negation()?;
            r.part(column, ExpressionKind::Call(Function::Not, vec![e]))
        })
    }

    fn comparison(&mut self) -> Result<Expression, Wrong> {
        let left = self.sum()?;
        let column = self.column();
        let operator = match self.eat(&["<", "<=", ">", ">=", "==", "!="]) {
            Some("<") => Operator::Less,
            Some("<=") => Operator::LessEqual,
            Some(">") => Operator::Greater,
            Some(">=") => Operator::GreaterEqual,
            Some("==") => Operator::Equal,
            Some(_) => Operator::NotEqual,
            None => return Ok(left),
        };
        let right = self.sum()?;
        self.part(column, ExpressionKind::Binary(operator, Box::new(left), Box::new(right)))
    }

    fn sum(&mut self) -> Result<Expression, Wrong> {
        let mut left = self.product()?;
        loop {
            let column = self.column();
            let Some(sign) = self.eat(&["+", "-"]) else { return Ok(left) };
            let operator = if sign == "+" { Operator::Add } else { Operator::Subtract };
            let right = self.product()?;
            left = self.part(column, ExpressionKind::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn product(&mut self) -> Result<Expression, Wrong> {
        let mut left = self.unary()?;
        loop {
            let column = self.column();
            let Some(sign) = self.eat(&["*", "/"]) else { return Ok(left) };
            let operator = if sign == "*" { Operator::Multiply } else { Operator::Divide };
            let right = self.unary()?;
            left = self.part(column, ExpressionKind::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn unary(&mut self) -> Result<Expression, Wrong> {
        self.deeper(|r| {
            let column = r.column();
            if r.eat(&["-"]).is_some() {
                let e = r.unary()?;
                return r.part(column, ExpressionKind::Negative(Box::new(e)));
            }
            r.power()
        })
    }

    fn power(&mut self) -> Result<Expression, Wrong> {
        let base = self.postfix()?;
        let column = self.column();
        if self.eat(&["^", "**"]).is_none() {
            return Ok(base);
        }
        let exponent = self.unary()?;
        self.part(column, ExpressionKind::Binary(Operator::Power, Box::new(base), Box::new(exponent)))
    }

    fn postfix(&mut self) -> Result<Expression, Wrong> {
        let mut e = self.primary()?;
        loop {
            let column = self.column();
            let component = match self.eat(&[".x", ".y", ".z", "[", "."]) {
                Some(".x") => 0,
                Some(".y") => 1,
                Some(".z") => 2,
                Some("[") => {
                    let (at, token) = self.next();
                    let Token::Number(n) = token else {
                        return Err(Wrong::at(at, format!("expected a component 0, 1 or 2, found {}", shown(&token))));
                    };
                    if ![0.0, 1.0, 2.0].contains(&n) {
                        return Err(Wrong::at(at, format!("there is no component {n}: they are 0, 1 and 2")));
                    }
                    self.expect("]")?;
                    n as usize
                }
                Some(_) => return Err(Wrong::at(column, "a component is .x, .y or .z")),
                None => return Ok(e),
            };
            e = self.part(column, ExpressionKind::Component(Box::new(e), component))?;
        }
    }

    fn primary(&mut self) -> Result<Expression, Wrong> {
        let (column, token) = self.next();
        match token {
            Token::Number(v) => {
                let unit = if let Token::Unit(u) = self.peek() { Some(u.clone()) } else { None };
                self.at += usize::from(unit.is_some());
                self.part(column, ExpressionKind::Number(v, unit))
            }
            Token::Quoted(name) => self.part(column, ExpressionKind::Name(name)),
            Token::Name(word) if WORDS.contains(&word.as_str()) => {
                let what = match word.as_str() {
                    "not" => "'not' goes before a whole comparison; put it in parentheses",
                    _ => "this word stands between two conditions",
                };
                Err(Wrong::at(column, format!("expected a number, a name or a function, found '{word}': {what}")))
            }
            Token::Name(name) if *self.peek() == Token::Sign("(") => {
                self.at += 1;
                self.deeper(|r| r.call(column, &name))
            }
            Token::Name(name) => self.part(column, ExpressionKind::Name(name)),
            Token::Sign("(") => self.deeper(|r| {
                let e = r.condition()?;
                r.expect(")")?;
                Ok(e)
            }),
            token => {
                Err(Wrong::at(column, format!("expected a number, a name or a function, found {}", shown(&token))))
            }
        }
    }

    fn call(&mut self, column: usize, name: &str) -> Result<Expression, Wrong> {
        let first = self.condition()?;
        if name == "to" {
            self.expect(",")?;
            let (at, token) = self.next();
            let Token::Unit(unit) = token else {
                return Err(Wrong::at(at, format!("expected a unit in single quotes, found {}", shown(&token))));
            };
            self.expect(")")?;
            return self.part(column, ExpressionKind::To(Box::new(first), unit));
        }
        let Some(function) = Function::named(name) else {
            let known = Function::names().join(", ");
            return Err(Wrong::at(column, format!("there is no function '{name}'; functions are {known}")));
        };
        let mut args = vec![first];
        while self.eat(&[","]).is_some() {
            args.push(self.condition()?);
        }
        self.expect(")")?;
        if args.len() != function.arguments() {
            let (takes, given) = (function.arguments(), args.len());
            return Err(Wrong::at(column, format!("{name}() takes {takes} arguments, not {given}")));
        }
        self.part(column, ExpressionKind::Call(function, args))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> String {
        parse(text).map_or_else(|e| format!("{}: {}", e.column, e.what), |e| e.to_string())
    }

    #[test]
    fn precedence() {
        assert_eq!(read("1+2*3"), "(1.0) + ((2.0) * (3.0))");
        assert_eq!(read("-a^2"), "-((a) ^ (2.0))");
        assert_eq!(read("2^-b^c"), "(2.0) ^ (-((b) ^ (c)))");
        assert_eq!(read("a - b - c"), "((a) - (b)) - (c)");
        assert_eq!(read("v.x < v[1]"), "((v)[0]) < ((v)[1])");
        assert_eq!(read("to(norm(v), 'km/h')"), "to(magnitude(v), 'km/h')");
        assert_eq!(read("3 'm/s' * .5e1"), "(3.0 'm/s') * (5.0)");
        assert_eq!(read("\"odd name\" / 2"), "(\"odd name\") / (2.0)");
        assert_eq!(read("a < 1 or not b > c and d"), "((a) < (1.0)) or ((not((b) > (c))) and (d))");
        assert_eq!(read("not not a == b"), "not(not((a) == (b)))");
        assert_eq!(read("not (a) < b"), "not((a) < (b))");
        assert_eq!(read("(not a) < b"), "(not(a)) < (b)");
        assert_eq!(read("where(a or b, 1, 2)"), "where((a) or (b), 1.0, 2.0)");
        assert_eq!(read("\"and\" + order"), "(\"and\") + (order)");
    }

    #[test]
    fn what_does_not_parse() {
        assert!(read("a and").starts_with("6: expected a number, a name or a function, found the end"));
        assert!(read("a or or b").starts_with("6: expected a number, a name or a function, found 'or'"));
        assert!(read("2 * not a").starts_with("5: expected a number, a name or a function, found 'not': 'not' goes"));
        assert!(read("a and b not c").starts_with("9: expected an operator or the end, found 'not'"));
        assert!(read(&"not ".repeat(1000)).contains("nested more than"));
        assert!(read("a +").starts_with("4: expected a number, a name or a function, found the end"));
        assert!(read("foo(a)").starts_with("1: there is no function 'foo'; functions are where,"));
        assert!(read("min(a)").starts_with("1: min() takes 2 arguments, not 1"));
        assert!(read("a b").starts_with("3: expected an operator or the end, found 'b'"));
        assert!(read("v.q").starts_with("2: a component is"));
        assert!(read("v.xyz").starts_with("2: a component is"));
        assert!(read("v[3]").starts_with("3: there is no component 3"));
        assert!(read("to(a, m)").starts_with("7: expected a unit in single quotes"));
        assert!(read("a $ b").starts_with("3: '$' means nothing here"));
        assert!(read("'m").starts_with("1: a quote"));
        assert!(read("").starts_with("1: expected a number"));
        assert!(read(&"(".repeat(1000)).contains("nested more than"));
        assert!(read(&"-".repeat(1000)).contains("nested more than"));
        assert!(read(&vec!["1"; 1000].join("+")).contains("parts"));
        assert!(read("1e999").contains("is not a number"));
    }

    fn any_expression() -> impl Strategy<Value = Expression> {
        let leaf = prop_oneof![
            (0.0..1e6f64).prop_map(|v| ExpressionKind::Number(v, None)),
            (0.0..10.0f64).prop_map(|v| ExpressionKind::Number(v, Some("m s-1".into()))),
            prop::sample::select(vec!["density", "velocity", "x", "odd name", "time", "not"])
                .prop_map(|n| ExpressionKind::Name(n.into())),
        ]
        .prop_map(|kind| Expression { column: 0, kind });
        let operators = vec![
            Operator::Add,
            Operator::Subtract,
            Operator::Multiply,
            Operator::Divide,
            Operator::Power,
            Operator::Less,
            Operator::NotEqual,
            Operator::And,
            Operator::Or,
        ];
        leaf.prop_recursive(5, 40, 3, move |inner| {
            let calls: Vec<Function> = Function::all().collect();
            prop_oneof![
                (prop::sample::select(operators.clone()), inner.clone(), inner.clone())
                    .prop_map(|(o, a, b)| ExpressionKind::Binary(o, Box::new(a), Box::new(b))),
                inner.clone().prop_map(|e| ExpressionKind::Negative(Box::new(e))),
                (inner.clone(), 0usize..3).prop_map(|(e, c)| ExpressionKind::Component(Box::new(e), c)),
                inner.clone().prop_map(|e| ExpressionKind::To(Box::new(e), "kn".into())),
                (prop::sample::select(calls), prop::collection::vec(inner, 3))
                    .prop_map(|(f, args)| ExpressionKind::Call(f, args.into_iter().take(f.arguments()).collect())),
            ]
            .prop_map(|kind| Expression { column: 0, kind })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, rng_seed: prop::test_runner::RngSeed::Fixed(0x7061_7273), ..ProptestConfig::default() })]
        #[test]
        fn any_text_has_an_answer(text in "[-a-z0-9 ()*/^.,<>=!'\"\\[\\]_+]{0,40}|\\PC{0,20}|([-(]|min\\(|x\\.|1e|,|\\*\\*|'){0,120}|(a|1|[<(]|\\)| and | or | ?not ?){0,30}") {
            if let Ok(e) = parse(&text) {
                prop_assert!(e.column >= 1);
            }
        }
        #[test]
        fn what_is_printed_is_read_as_what_it_was(e in any_expression()) {
            prop_assert_eq!(parse(&e.to_string()).map(Expression::without_columns), Ok(e));
        }
    }
}
