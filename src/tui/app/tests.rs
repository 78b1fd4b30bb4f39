//! Tests in the form of stories: keys in, the drawn screen out. The store is real and answers at
//! once; nothing waits and no clock runs.

mod detail;
mod groups;
mod hostile;
mod lists;
mod many;
mod notes;
mod packets;
mod pictures;
mod replay;
mod sessions;
mod small;
mod steps;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::*;
use crate::store::{DatabaseFile, StoreReader};
use crate::tui::data::Progress;
use crate::tui::frame;
use crate::tui::import::{Decoding, Import};
use crate::tui::keys;
use crate::tui::layout;
use crate::tui::query_runner::QueryRunner;
use crate::tui::query_thread::is_unfinished;
use crate::tui::replay::Submission;
use crate::tui::replay::run::ReplayUpdate;

/// A screen, its user and a store.
pub(crate) struct Story {
    pub(crate) app: App,
    query_runner: QueryRunner,
    pub(crate) copied: Vec<String>,
    pub(crate) ended: bool,
    /// The theme that was last asked to be remembered.
    pub(crate) remembered: Option<Option<Theme>>,
    pub(crate) submitted: Vec<Submission>,
    place: DatabaseFile,
}

impl Story {
    /// Opens one of the samples.
    pub(crate) fn sample(name: &str, size: (u16, u16)) -> Story {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(name).join("capture.pcapng");
        Story::files(&[path], size)
    }

    /// Opens capture files.
    pub(crate) fn files(files: &[PathBuf], size: (u16, u16)) -> Story {
        let place = DatabaseFile::temporary().unwrap();
        let import = Import::new(files, place.clone(), Decoding::default()).unwrap();
        let mut last = None;
        import.run(&mut |progress| last = Some(progress), &AtomicBool::new(false));
        assert_eq!(last, Some(Progress::Done));
        Story::store(place, size)
    }

    /// Opens a store.
    pub(crate) fn store(place: DatabaseFile, size: (u16, u16)) -> Story {
        let query_runner = QueryRunner::new(StoreReader::open(place.clone()).unwrap(), false);
        let app = App::new("capture.pcapng".to_owned(), size, Theme::Mono);
        let mut story = Story {
            app,
            query_runner,
            copied: Vec::new(),
            ended: false,
            remembered: None,
            submitted: Vec::new(),
            place,
        };
        story.take(Input::Tick(Time::default()));
        story
    }

    /// Presses keys: `j<enter>/tool = add<enter>`.
    pub(crate) fn press(&mut self, keys: &str) -> &mut Story {
        for key in keys::story(keys) {
            self.take(Input::Key(key));
        }
        self
    }

    /// Handles an input, then answers queries until there are no more.
    pub(crate) fn take(&mut self, input: Input) {
        let mut effects = update(&mut self.app, input);
        for _ in 0..100 {
            let performed: Vec<Effect> = std::mem::take(&mut effects);
            if performed.is_empty() {
                return;
            }
            for effect in performed {
                match effect {
                    Effect::Query(query) => {
                        let mut answer = self.query_runner.answer(&query);
                        // A machine under load reads less at once.
                        while is_unfinished(&answer) {
                            answer = self.query_runner.answer(&query);
                        }
                        effects.extend(update(&mut self.app, Input::Answer(query, answer)));
                    }
                    Effect::Copy(text) => self.copied.push(text),
                    Effect::Quit => self.ended = true,
                    Effect::Replay(submission) => self.submitted.push(submission),
                    Effect::ReadAnswers(step) => {
                        let replays = &self.app.replays;
                        let finished = replays.run.as_ref().and_then(|run| run.finished.clone()).unwrap();
                        let answers = ReplayUpdate::Answers(step, finished.answers(step));
                        let number = replays.last_number;
                        effects.extend(update(&mut self.app, Input::Replay(number, answers)));
                    }
                    Effect::RememberTheme(theme) => self.remembered = Some(theme),
                    Effect::Redraw | Effect::Suspend | Effect::StopReplay => {}
                }
            }
        }
        panic!("questions without end");
    }

    /// The drawn screen as cells.
    pub(crate) fn buffer(&self) -> Buffer {
        let (width, height) = self.app.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|frame| {
                frame::draw(&self.app, frame.buffer_mut());
            })
            .unwrap();
        terminal.backend().buffer().clone()
    }

    /// The drawn screen as text.
    pub(crate) fn screen(&self) -> String {
        let buffer = self.buffer();
        let mut lines = Vec::new();
        for y in 0..buffer.area.height {
            let mut line = String::new();
            let mut skip = 0;
            for x in 0..buffer.area.width {
                let symbol = buffer[(x, y)].symbol();
                // A wide character hides the cell behind it.
                if skip == 0 {
                    line.push_str(symbol);
                    skip = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
                } else {
                    skip -= 1;
                }
            }
            lines.push(line.trim_end().to_owned());
        }
        lines.join("\n")
    }
}
