//! Pages with pictures.

use crate::draw::svg::{STYLE, arrowheads};
use crate::draw::text::escape;

/// A picture of a page, and its name.
#[derive(Debug, Clone)]
pub struct Tab {
    /// Its name.
    pub name: String,
    /// The picture, as an SVG element.
    pub picture: String,
}

/// Style of pages; that of pictures comes before.
pub const PAGE: &str = include_str!("page.css");

/// A page with one picture at a time, chosen by name, and a text below. It needs no script: the
/// names are radio buttons, so a keyboard and a screen reader can choose, too.
pub fn page(title: &str, tabs: &[Tab], text: &str) -> String {
    let mut inputs = String::new();
    let mut pictures = String::new();
    let mut rules = String::new();
    for (number, tab) in tabs.iter().enumerate() {
        let checked = if number == 0 { " checked" } else { "" };
        inputs.push_str(&format!(
            "<input type=\"radio\" name=\"tab\" id=\"t{number}\"{checked}><label for=\"t{number}\">{}</label>\n",
            escape(&tab.name)
        ));
        pictures.push_str(&format!(
            "<div class=\"tab\" id=\"p{number}\">{}</div>\n",
            tab.picture
        ));
        rules.push_str(&format!(
            "#t{number}:checked ~ #p{number} {{ display: block; }}\n"
        ));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}{PAGE}{rules}</style>\n</head>\n<body class=\"page\">\n\
         <svg width=\"0\" height=\"0\" style=\"position: absolute\" aria-hidden=\"true\"><defs>\n{}</defs></svg>\n\
         <h1>{title}</h1>\n\
         <div class=\"tabs\" role=\"group\" aria-label=\"Pictures\">\n{inputs}{pictures}</div>\n\
         <pre>{}</pre>\n</body>\n</html>\n",
        arrowheads(),
        escape_lines(text),
        title = escape(title),
    )
}

/// Text of several lines.
fn escape_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(escape).collect();
    lines.join("\n")
}
