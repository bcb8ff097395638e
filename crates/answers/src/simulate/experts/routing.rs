//! Routing: the tokens of each rank by the ranks that need them.

/// Most ranks that exchange tokens: all pairs are simulated.
pub const MOST_RANKS: u32 = 512;

/// Most tokens of a rank, experts, and experts of a token.
pub const MOST_COUNT: u32 = 1 << 24;

/// Shares of tokens below this are none.
const NEGLIGIBLE: f64 = 1e-18;

/// Which ranks the tokens of each rank need.
#[derive(Debug, Clone, PartialEq)]
pub struct Routing {
    ranks: u32,
    /// Experts of a token.
    top_k: u32,
    counts: Counts,
}

#[derive(Debug, Clone, PartialEq)]
enum Counts {
    /// All experts are alike: the tokens of a rank, and by number of ranks the share of tokens that
    /// need no expert of them.
    Uniform { tokens: u32, none: Vec<f64> },
    /// For each rank the copies of its tokens that go to each rank.
    Matrix(Vec<Vec<f64>>),
}

impl Routing {
    /// Each token of a rank needs `top_k` of `experts`, all of them equally often; each rank has as
    /// many experts.
    ///
    /// # Errors
    /// The numbers do not fit each other; a sentence.
    pub fn uniform(ranks: u32, tokens: u32, experts: u32, top_k: u32) -> Result<Self, String> {
        check_ranks(ranks)?;
        if !(1..=MOST_COUNT).contains(&tokens) || !(1..=MOST_COUNT).contains(&experts) {
            return Err(format!(
                "{tokens} tokens of a rank and {experts} experts; expected 1 to {MOST_COUNT} of each"
            ));
        }
        if !experts.is_multiple_of(ranks) {
            return Err(format!(
                "{experts} experts are not divided by {ranks} ranks; expected a multiple"
            ));
        }
        if !(1..=experts).contains(&top_k) {
            return Err(format!(
                "{top_k} experts of a token; expected 1 to {experts}"
            ));
        }
        Ok(Self {
            ranks,
            top_k,
            counts: Counts::Uniform {
                tokens,
                none: (0..=ranks)
                    .map(|some| none_of(experts, experts / ranks * some, top_k))
                    .collect(),
            },
        })
    }

    /// Reads a matrix: a line for each rank, with the copies of its tokens that go to each rank (a
    /// token with two experts on a rank counts twice), separated by commas, blanks or tabs. `#`
    /// begins a comment.
    ///
    /// # Errors
    /// It is no such matrix; a sentence with the line.
    pub fn read(file: &str, text: &str, ranks: u32, top_k: u32) -> Result<Self, String> {
        check_ranks(ranks)?;
        if !(1..=MOST_COUNT).contains(&top_k) {
            return Err(format!(
                "{top_k} experts of a token; expected 1 to {MOST_COUNT}"
            ));
        }
        let mut rows = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let wrong = |why: String| format!("{file}:{}: {why}", at + 1);
            if rows.len() == ranks as usize {
                let why = format!("a row after {ranks}; expected one for each rank of the job");
                return Err(wrong(why));
            }
            let cells = line.split([',', ' ', '\t']).filter(|it| !it.is_empty());
            let mut row = Vec::with_capacity(ranks as usize);
            for cell in cells.take(ranks as usize + 1) {
                let number: Option<f64> = cell.parse().ok();
                let number = number.filter(|it| (0.0..=f64::from(MOST_COUNT)).contains(it));
                row.push(number.ok_or_else(|| {
                    wrong(format!(
                        "`{cell}`; expected a number of tokens from 0 to {MOST_COUNT}"
                    ))
                })?);
            }
            if row.len() != ranks as usize {
                let found = match row.len() > ranks as usize {
                    true => "more".to_owned(),
                    false => row.len().to_string(),
                };
                let why =
                    format!("{found} columns; expected {ranks}, one for each rank of the job");
                return Err(wrong(why));
            }
            rows.push(row);
        }
        if rows.len() != ranks as usize {
            return Err(format!(
                "{file} has {} rows; expected {ranks}, one for each rank of the job",
                rows.len()
            ));
        }
        Ok(Self {
            ranks,
            top_k,
            counts: Counts::Matrix(rows),
        })
    }

    /// Ranks of the job.
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Experts of a token.
    pub const fn top_k(&self) -> u32 {
        self.top_k
    }

    /// Tokens of a rank.
    pub fn tokens(&self, rank: u32) -> f64 {
        match &self.counts {
            Counts::Uniform { tokens, .. } => f64::from(*tokens),
            Counts::Matrix(rows) => {
                let row = rows.get(rank as usize);
                row.map_or(0.0, |row| row.iter().sum::<f64>()) / f64::from(self.top_k)
            }
        }
    }

    /// Copies of a rank's tokens that go to another: a token with two experts there counts twice.
    pub fn copies(&self, from: u32, to: u32) -> f64 {
        match &self.counts {
            Counts::Uniform { tokens, .. } => {
                f64::from(*tokens) * f64::from(self.top_k) / f64::from(self.ranks)
            }
            Counts::Matrix(rows) => {
                let row = rows.get(from as usize);
                row.and_then(|row| row.get(to as usize))
                    .copied()
                    .unwrap_or(0.0)
            }
        }
    }

    /// Tokens of a rank that need at least one expert of some others.
    ///
    /// The experts of a token differ. Of a matrix they are taken as drawn one by one, each by its
    /// share of the row: a matrix does not say which copies are of one token.
    pub fn needing(&self, from: u32, ranks: &[u32]) -> f64 {
        let tokens = self.tokens(from);
        let none = match &self.counts {
            Counts::Uniform { none, .. } => none.get(ranks.len()).copied().unwrap_or(0.0),
            Counts::Matrix(_) => {
                let all = tokens * f64::from(self.top_k);
                let there: f64 = ranks.iter().map(|to| self.copies(from, *to)).sum();
                match all > 0.0 {
                    true => (1.0 - there / all).max(0.0).powf(self.top_k.into()),
                    false => 1.0,
                }
            }
        };
        tokens * (1.0 - none)
    }
}

/// The share of tokens that need none of some experts, if each needs `top_k` different ones.
fn none_of(experts: u32, some: u32, top_k: u32) -> f64 {
    let mut share = 1.0;
    for drawn in 0..top_k {
        let others = (experts - some).saturating_sub(drawn);
        share *= f64::from(others) / f64::from(experts - drawn);
        // Less than the last digit of 1.
        if share < NEGLIGIBLE {
            return 0.0;
        }
    }
    share
}

fn check_ranks(ranks: u32) -> Result<(), String> {
    match (1..=MOST_RANKS).contains(&ranks) {
        true => Ok(()),
        false => Err(format!(
            "{ranks} ranks exchange tokens; expected 1 to {MOST_RANKS}, because every pair is simulated"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 1e-9 * expected.max(1.0),
            "{found}, not {expected}"
        );
    }

    #[test]
    fn a_token_needs_each_expert_once() {
        // 2 of 4 experts, one on each rank: pairs of experts.
        let routing = Routing::uniform(4, 600, 4, 2).unwrap();
        near(routing.needing(0, &[3]), 300.0);
        near(routing.needing(0, &[2, 3]), 500.0);
        near(routing.needing(0, &[0, 1, 2, 3]), 600.0);
        near(routing.copies(1, 2), 300.0);
    }

    #[test]
    fn a_matrix_gives_tokens_and_copies() {
        let text = "# from rank 0\n8, 0\n4 4 # rank 1\n";
        let routing = Routing::read("m", text, 2, 2).unwrap();
        near(routing.tokens(0), 4.0);
        near(routing.needing(0, &[0]), 4.0);
        near(routing.needing(0, &[1]), 0.0);
        near(routing.needing(1, &[0]), 3.0);
        near(routing.needing(1, &[0, 1]), 4.0);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, expected) in [
            ("1 2\n3", "m:2: 1 columns; expected 2"),
            ("1 2 3\n", "m:1: more columns; expected 2"),
            ("1 x\n", "m:1: `x`; expected a number of tokens"),
            ("1 -2\n", "m:1: `-2`; expected a number"),
            ("1 2\n", "m has 1 rows; expected 2"),
            ("1 2\n3 4\n5 6", "m:3: a row after 2"),
        ] {
            let found = Routing::read("m", text, 2, 2).unwrap_err();
            assert!(found.starts_with(expected), "{found}");
        }
        assert!(Routing::uniform(8, 1, 12, 2).is_err());
        assert!(Routing::uniform(8, 1, 8, 9).is_err());
        assert!(Routing::uniform(1024, 1, 1024, 2).is_err());
    }
}
