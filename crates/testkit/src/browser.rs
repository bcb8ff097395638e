//! A browser that obeys, by the protocol of WebDriver (W3C) over chromedriver.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Time limit of a script and of an answer.
const LONGEST: Duration = Duration::from_secs(600);

/// A browser without a window.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one.
    ///
    /// # Errors
    /// There is none; a sentence.
    pub fn start() -> Result<Self, String> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|_| "there is no browser (apt install chromium chromium-driver)".to_owned())?;
        let said = driver.stdout.take().ok_or("chromedriver has no output")?;
        let said = BufReader::new(said);
        // The first line repeats the port that was asked for, 0.
        let port = said.lines().map_while(Result::ok).find_map(|line| {
            let port: u16 = line
                .split_once("on port ")?
                .1
                .trim_end_matches('.')
                .parse()
                .ok()?;
            (port != 0).then_some(port)
        });
        let mut browser = Self {
            driver,
            port: port
                .filter(|it| *it != 0)
                .ok_or("chromedriver said no port")?,
            session: String::new(),
        };
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            // What a screenshot has does not depend on the machine.
            "--window-size=1280,1000",
            "--force-device-scale-factor=1",
            "--hide-scrollbars",
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": arguments },
            "timeouts": { "script": LONGEST.as_millis() as u64 },
        } } });
        let session = browser.ask("POST", "/session", &wanted)?;
        let id = session["sessionId"].as_str().unwrap_or_default();
        browser.session = format!("/session/{id}");
        Ok(browser)
    }

    /// Opens a page of a file, with what follows its name in the address.
    ///
    /// # Errors
    /// The browser refuses, or does not answer.
    pub fn open(&mut self, page: &Path, rest: &str) -> Result<(), String> {
        self.visit(&format!("file://{}{rest}", page.display()))
    }

    /// Opens a page by its address.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn visit(&mut self, address: &str) -> Result<(), String> {
        self.command("/url", &json!({ "url": address })).map(drop)
    }

    /// Gives the window another size, pixels.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn resize(&mut self, [width, height]: [u32; 2]) -> Result<(), String> {
        let size = json!({ "width": width, "height": height });
        self.command("/window/rect", &size).map(drop)
    }

    /// Shows pages as readers see them that prefer dark colors, or light ones.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn prefer_dark(&mut self, dark: bool) -> Result<(), String> {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        let call = json!({
            "cmd": "Emulation.setEmulatedMedia",
            "params": { "features": features },
        });
        self.command("/goog/cdp/execute", &call).map(drop)
    }

    /// Runs a script whose last argument takes the result.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn run(&mut self, script: &str, arguments: &Value) -> Result<Value, String> {
        self.command(
            "/execute/async",
            &json!({ "script": script, "args": arguments }),
        )
    }

    /// Presses keys one after the other; special ones have the numbers of WebDriver.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn press(&mut self, keys: &str) -> Result<(), String> {
        let kinds = ["keyDown", "keyUp"];
        let actions = keys
            .chars()
            .flat_map(|key| kinds.map(|kind| json!({ "type": kind, "value": key })));
        let actions: Vec<_> = actions.collect();
        let keyboard = json!([{ "type": "key", "id": "keyboard", "actions": actions }]);
        self.command("/actions", &json!({ "actions": keyboard }))
            .map(drop)
    }

    /// Clicks in the middle of an element that a script found.
    ///
    /// # Errors
    /// As [`Self::open`]; nothing was found, or something else is before it.
    pub fn click(&mut self, element: &Value) -> Result<(), String> {
        let element = element
            .as_object()
            .and_then(|it| it.values().next()?.as_str());
        let element = element.ok_or("there is no such element")?;
        self.command(&format!("/element/{element}/click"), &json!({}))
            .map(drop)
    }

    /// The browser's window, as a PNG file in base64.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn screenshot(&self) -> Result<String, String> {
        let path = format!("{}/screenshot", self.session);
        let picture = self.ask("GET", &path, &json!({}))?;
        let picture = picture.as_str().map(str::to_owned);
        picture.ok_or_else(|| "the browser takes no screenshot".to_owned())
    }

    /// The browser's console.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn errors(&mut self) -> Result<Vec<String>, String> {
        let lines = self.command("/se/log", &json!({ "type": "browser" }))?;
        let lines = lines.as_array().cloned().unwrap_or_default();
        Ok(lines.iter().map(|it| it["message"].to_string()).collect())
    }

    fn command(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let failed = |why: std::io::Error| format!("chromedriver: {why}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(failed)?;
        stream.set_read_timeout(Some(LONGEST)).map_err(failed)?;
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream
            .write_all((head + &body).as_bytes())
            .map_err(failed)?;
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).map_err(failed)?;
            let lower = line.trim().to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value
                    .trim()
                    .parse()
                    .map_err(|_| "chromedriver: no length")?;
            }
            if lower.is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).map_err(failed)?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|why| why.to_string())?;
        let value = answer["value"].clone();
        match value["error"].as_str() {
            // An answer of the page may have this key, too, but no message.
            Some(error) if value["message"].is_string() => {
                Err(format!("{error}: {}", value["message"]))
            }
            _ => Ok(value),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // The browser ends with its session.
            let _ = self.ask("DELETE", &self.session, &json!({}));
        }
        // The driver may be gone.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
