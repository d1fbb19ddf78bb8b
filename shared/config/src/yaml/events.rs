//! The small safe wrapper over the event parser: text in, owned events with positions out.
//! Contains all unsafe code of this crate. The parser only gets UTF-8 and at most [`super::limits::MAX_BYTES`] bytes, so that
//! none of its counters can overflow.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use libyaml_rs as unsafe_lib;

use super::position::{LineColumn, Problem, line_column_of};
use super::validator::{ScalarStyle, Validator};

/// The properties of a node.
#[derive(Debug, Default)]
pub(super) struct Properties {
    pub anchor: Option<Box<str>>,
    pub tag: Option<Box<str>>,
}

#[derive(Debug)]
pub(super) enum Event {
    /// Starts and ends of the stream and of documents.
    DocumentStart,
    DocumentEnd,
    StreamEnd,
    Alias(Box<str>),
    Scalar {
        props: Properties,
        text: String,
        /// Whether the type follows from the text, because the scalar has neither quotes nor a tag.
        plain: bool,
    },
    SequenceStart(Properties),
    MappingStart(Properties),
    End,
}

pub(super) struct Events<'a> {
    /// Boxed: the parser keeps a pointer to itself.
    parser: Box<MaybeUninit<unsafe_lib::yaml_parser_t>>,
    text: PhantomData<&'a str>,
    /// The text, to convert byte offsets from the parser.
    input: &'a str,
    validator: Option<Validator<'a>>,
    /// For each enclosing collection, whether it is in flow style or inside a flow collection.
    flow: Vec<bool>,
}

/// An event, its start and end in bytes, and its style.
struct RawEvent {
    event: Option<Event>,
    at: LineColumn,
    from: u64,
    to: u64,
    form: ScalarStyle,
    flow: bool,
}

impl<'a> Events<'a> {
    /// Returns `None` if libyaml cannot allocate memory.
    pub fn new(input: &'a str) -> Option<Events<'a>> {
        let mut parser = Box::new(MaybeUninit::uninit());
        // SAFETY: initialize writes the whole struct or fails; a failed call leaves nothing to free, and the box is
        // dropped without running `Drop` of `Events`. The input outlives the parser by lifetime 'a.
        let ready = unsafe {
            unsafe_lib::yaml_parser_initialize(parser.as_mut_ptr()).ok && {
                unsafe_lib::yaml_parser_set_input_string(
                    parser.as_mut_ptr(),
                    input.as_ptr(),
                    input.len() as u64,
                );
                true
            }
        };
        ready.then(|| Events {
            parser,
            text: PhantomData,
            input,
            validator: Validator::new(input),
            flow: Vec::new(),
        })
    }

    /// Returns the next event and its position. Must not be called again after an error.
    ///
    /// # Errors
    /// Fails for a syntax error and for text that PyYAML rejects.
    pub fn next(&mut self) -> Result<(Event, LineColumn), Problem> {
        loop {
            let mut event = MaybeUninit::<unsafe_lib::yaml_event_t>::uninit();
            // SAFETY: the parser was initialized in `new` and has not moved. On success parse has filled the event, and
            // only then it is read and, once, deleted.
            let read = unsafe {
                if unsafe_lib::yaml_parser_parse(self.parser.as_mut_ptr(), event.as_mut_ptr()).fail {
                    None
                } else {
                    let read = to_owned_event(event.assume_init_ref());
                    unsafe_lib::yaml_event_delete(event.as_mut_ptr());
                    Some(read)
                }
            };
            match read {
                None => return Err(self.problem()),
                Some(read) => {
                    self.check(&read)?;
                    if let Some(event) = read.event {
                        return Ok((event, read.at));
                    }
                }
            }
        }
    }

    fn check(&mut self, read: &RawEvent) -> Result<(), Problem> {
        let in_flow = self.flow.last().copied().unwrap_or(false);
        match &read.event {
            Some(Event::SequenceStart(_) | Event::MappingStart(_)) => self.flow.push(in_flow || read.flow),
            Some(Event::End) => {
                self.flow.pop();
            }
            _ => {}
        }
        let Some(validator) = &mut self.validator else { return Ok(()) };
        match &read.event {
            Some(Event::Scalar { .. }) => validator.scalar(read.from, read.to, read.form, in_flow),
            Some(Event::StreamEnd) => validator.between(u64::MAX),
            _ => Ok(()),
        }
    }

    fn problem(&self) -> Problem {
        // SAFETY: initialized in `new`. Problem and context are null or point to the library's own constants.
        let (parser, problem, context) = unsafe {
            let parser = self.parser.assume_init_ref();
            (parser, static_str(parser.problem), static_str(parser.context))
        };
        // The library counts positions of unreadable bytes in bytes, all others in lines and columns.
        let at = if parser.error as u32 == unsafe_lib::YAML_READER_ERROR as u32 {
            line_column_of(self.input, usize::try_from(parser.problem_offset).unwrap_or(usize::MAX))
        } else {
            line_column(&parser.problem_mark)
        };
        let index = |mark: &unsafe_lib::yaml_mark_t| usize::try_from(mark.index).unwrap_or(usize::MAX);
        let (begin, end) = (&parser.context_mark, &parser.problem_mark);
        let context_at = line_column(begin);
        Problem { at, problem, context, index: index(end), context_at, context_index: index(begin) }
    }
}

impl Drop for Events<'_> {
    fn drop(&mut self) {
        // SAFETY: initialized in `new`, deleted only here.
        unsafe { unsafe_lib::yaml_parser_delete(self.parser.as_mut_ptr()) }
    }
}

fn line_column(mark: &unsafe_lib::yaml_mark_t) -> LineColumn {
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
    LineColumn { line: count(mark.line), column: count(mark.column) }
}

/// SAFETY: `text` is null or a constant of the library that ends in NUL. The library's characters are signed on every
/// architecture, those of C are not.
unsafe fn static_str(text: *const i8) -> &'static str {
    if text.is_null() {
        return "";
    }
    unsafe { CStr::from_ptr(text.cast()) }.to_str().unwrap_or_default()
}

/// SAFETY: `text` is null or a string of an event that has not been deleted.
unsafe fn c_string(text: *const u8) -> Option<Box<str>> {
    if text.is_null() {
        return None;
    }
    Some(unsafe { CStr::from_ptr(text.cast()) }.to_string_lossy().into())
}

/// SAFETY: the event was filled by `yaml_parser_parse` and is not deleted yet; its type says which member of the
/// union was written.
unsafe fn to_owned_event(event: &unsafe_lib::yaml_event_t) -> RawEvent {
    let data = &event.data;
    let (mut form, mut flow) = (ScalarStyle::Quoted, false);
    // SAFETY: each member is read only for its own type; its strings live as long as the event.
    let read = unsafe {
        match event.type_ {
            unsafe_lib::YAML_DOCUMENT_START_EVENT => Some(Event::DocumentStart),
            unsafe_lib::YAML_DOCUMENT_END_EVENT => Some(Event::DocumentEnd),
            unsafe_lib::YAML_STREAM_END_EVENT => Some(Event::StreamEnd),
            unsafe_lib::YAML_ALIAS_EVENT => {
                Some(Event::Alias(c_string(data.alias.anchor).unwrap_or_default()))
            }
            unsafe_lib::YAML_SCALAR_EVENT => {
                let scalar = &data.scalar;
                form = match scalar.style {
                    unsafe_lib::YAML_LITERAL_SCALAR_STYLE | unsafe_lib::YAML_FOLDED_SCALAR_STYLE => {
                        ScalarStyle::Block
                    }
                    unsafe_lib::YAML_PLAIN_SCALAR_STYLE => ScalarStyle::Plain,
                    _ => ScalarStyle::Quoted,
                };
                let length = usize::try_from(scalar.length).unwrap_or(0);
                let bytes = if scalar.value.is_null() || length == 0 {
                    &[]
                } else {
                    std::slice::from_raw_parts(scalar.value, length)
                };
                Some(Event::Scalar {
                    props: Properties { anchor: c_string(scalar.anchor), tag: c_string(scalar.tag) },
                    text: match std::str::from_utf8(bytes) {
                        Ok(text) => text.to_string(),
                        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
                    },
                    plain: scalar.plain_implicit,
                })
            }
            unsafe_lib::YAML_SEQUENCE_START_EVENT => {
                let sequence = &data.sequence_start;
                flow = sequence.style == unsafe_lib::YAML_FLOW_SEQUENCE_STYLE;
                Some(Event::SequenceStart(Properties {
                    anchor: c_string(sequence.anchor),
                    tag: c_string(sequence.tag),
                }))
            }
            unsafe_lib::YAML_MAPPING_START_EVENT => {
                let mapping = &data.mapping_start;
                flow = mapping.style == unsafe_lib::YAML_FLOW_MAPPING_STYLE;
                Some(Event::MappingStart(Properties {
                    anchor: c_string(mapping.anchor),
                    tag: c_string(mapping.tag),
                }))
            }
            unsafe_lib::YAML_SEQUENCE_END_EVENT | unsafe_lib::YAML_MAPPING_END_EVENT => Some(Event::End),
            _ => None,
        }
    };
    let (from, to) = (event.start_mark.index, event.end_mark.index);
    RawEvent { event: read, at: line_column(&event.start_mark), from, to, form, flow }
}
