//! The engine compared with two plain lists, and rules of the standard as tables.

use proptest::prelude::*;

use super::*;
use crate::key::WildcardKind;

fn envelope(context: u32, source: u32, tag: i32) -> Envelope {
    Envelope {
        context: Context(context),
        source: Source(source),
        tag: Tag(tag),
    }
}

fn pattern(context: u32, source: Option<u32>, tag: Option<i32>) -> Pattern {
    Pattern {
        context: Context(context),
        source: source.map_or(SourcePattern::Any, |source| {
            SourcePattern::Exact(Source(source))
        }),
        tag: tag.map_or(TagPattern::Any, |tag| TagPattern::Exact(Tag(tag))),
    }
}

/// The rules of the standard, as two lists. It compares fields itself, not by `Pattern::takes`.
#[derive(Default)]
struct Naive {
    posted: Vec<(Pattern, u32)>,
    unexpected: Vec<(Envelope, u32)>,
}

fn fits(pattern: &Pattern, envelope: &Envelope) -> bool {
    let source = match pattern.source {
        SourcePattern::Any => true,
        SourcePattern::Exact(source) => source == envelope.source,
    };
    let tag = match pattern.tag {
        TagPattern::Any => true,
        TagPattern::Exact(tag) => tag == envelope.tag,
    };
    pattern.context == envelope.context && source && tag
}

impl Naive {
    fn arrive(&mut self, envelope: Envelope, name: u32) -> Arrival<u32> {
        let place = self
            .posted
            .iter()
            .position(|(pattern, _)| fits(pattern, &envelope));
        match place {
            Some(place) => Arrival::Matched(self.posted.remove(place).1),
            None => {
                self.unexpected.push((envelope, name));
                Arrival::Unexpected
            }
        }
    }

    fn find(&self, pattern: &Pattern) -> Option<usize> {
        self.unexpected
            .iter()
            .position(|(envelope, _)| fits(pattern, envelope))
    }

    fn drop_context(&mut self, context: Context) -> Leftover<u32, u32> {
        let (posted, kept) = self.posted.iter().partition(|(p, _)| p.context == context);
        self.posted = kept;
        let (unexpected, kept) = self
            .unexpected
            .iter()
            .partition(|(e, _)| e.context == context);
        self.unexpected = kept;
        Leftover { posted, unexpected }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Arrive(Envelope),
    Post(Pattern),
    Peek(Pattern),
    Take(Pattern),
    /// Of the handles given out so far, counted from the last.
    Cancel(usize),
    Drop(Context),
}

/// Actions over some sources and tags; few keys meet often, many fill the tables. Of 16 acts on messages,
/// `arrivals` are arrivals.
fn acts(sources: u32, tags: i32, arrivals: u32) -> impl Strategy<Value = Act> {
    let envelopes = (0..2u32, 0..sources, 0..tags)
        .prop_map(|(context, source, tag)| envelope(context, source, tag));
    let patterns = || {
        let source = prop::option::weighted(0.7, 0..sources);
        let tag = prop::option::weighted(0.7, 0..tags);
        (0..2u32, source, tag).prop_map(|(context, source, tag)| pattern(context, source, tag))
    };
    prop_oneof![
        3 * arrivals => envelopes.prop_map(Act::Arrive),
        3 * (16 - arrivals) => patterns().prop_map(Act::Post),
        6 => patterns().prop_map(Act::Peek),
        3 => patterns().prop_map(Act::Take),
        6 => (0..40usize).prop_map(Act::Cancel),
        1 => (0..3u32).prop_map(|context| Act::Drop(Context(context))),
    ]
}

fn runs() -> impl Strategy<Value = Vec<Act>> {
    let length = if cfg!(miri) { 1..40 } else { 1..500 };
    // Backlogs of neither side, of messages, of receives.
    let (few, many) = ((4, 5), (40, 40));
    let mixes = [
        (few, 8),
        (few, 13),
        (few, 3),
        (many, 8),
        (many, 13),
        (many, 3),
    ];
    prop::sample::select(mixes.to_vec()).prop_flat_map(move |((sources, tags), arrivals)| {
        prop::collection::vec(acts(sources, tags, arrivals), length.clone())
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn behaves_as_two_lists(acts in runs()) {
        let (mut engine, mut naive) = (Matching::new(), Naive::default());
        let mut handles = Vec::new();
        for (name, act) in (0u32..).zip(acts) {
            match act {
                Act::Arrive(envelope) => {
                    let expected = naive.arrive(envelope, name);
                    // The match is the oldest of all; every other time it is taken by this way.
                    let oldest = engine.meet_oldest(envelope);
                    if let Some(oldest) = &oldest {
                        prop_assert_eq!(Arrival::Matched(oldest.payload()), expected);
                    }
                    if let Some(oldest) = oldest.filter(|_| name % 2 == 0) {
                        oldest.take();
                    } else {
                        let mut asked = 0;
                        let became = engine.arrive(envelope, || { asked += 1; name });
                        prop_assert_eq!(became, expected);
                        prop_assert_eq!(asked, u32::from(became == Arrival::Unexpected));
                    }
                }
                Act::Post(pattern) => match engine.post(pattern, name) {
                    Posting::Matched(envelope, message) => {
                        let place = naive.find(&pattern);
                        prop_assert!(place.is_some(), "matched with {message}, which does not fit");
                        let expected = naive.unexpected.remove(place.unwrap_or_default());
                        prop_assert_eq!((envelope, message), expected);
                    }
                    Posting::Posted(handle) => {
                        prop_assert_eq!(naive.find(&pattern), None);
                        naive.posted.push((pattern, name));
                        handles.push((handle, name));
                    }
                },
                Act::Peek(pattern) => {
                    let expected = naive.find(&pattern).map(|place| naive.unexpected[place]);
                    prop_assert_eq!(engine.peek(pattern), expected);
                }
                Act::Take(pattern) => {
                    let expected = naive.find(&pattern).map(|place| naive.unexpected.remove(place));
                    let found = match (pattern.source, pattern.tag) {
                        (SourcePattern::Exact(source), TagPattern::Exact(tag)) if name % 2 == 0 => {
                            let context = pattern.context;
                            engine.find_exact(Envelope { context, source, tag })
                        }
                        _ => engine.find(pattern),
                    };
                    if name % 3 == 0 {
                        prop_assert_eq!(engine.take(pattern), expected);
                    } else {
                        let message = found.map(|(found, message)| {
                            engine.take_found(found);
                            message
                        });
                        prop_assert_eq!(message, expected.map(|(_, message)| message));
                    }
                }
                Act::Cancel(back) => {
                    let Some((handle, name)) = handles.iter().rev().nth(back) else { continue };
                    let place = naive.posted.iter().position(|(_, other)| other == name);
                    prop_assert_eq!(engine.cancel(*handle), place.is_some());
                    if let Some(place) = place {
                        naive.posted.remove(place);
                    }
                }
                Act::Drop(context) => {
                    prop_assert_eq!(engine.drop_context(context), naive.drop_context(context));
                }
            }
            if !cfg!(miri) {
                engine.check();
            }
            prop_assert_eq!(engine.posted_len(), naive.posted.len());
            prop_assert_eq!(engine.unexpected_len(), naive.unexpected.len());
        }
        prop_assert_eq!(engine.posted().collect::<Vec<_>>(), naive.posted);
        prop_assert_eq!(engine.unexpected().collect::<Vec<_>>(), naive.unexpected);
    }
}

/// MPI 5.0, section 3.5, *Order*: of several receives that a message matches, the one posted first gets
/// it, however exact the others are.
#[test]
fn the_receive_posted_first_gets_the_message() {
    let kinds = [
        (Some(2), Some(7)),
        (Some(2), None),
        (None, Some(7)),
        (None, None),
    ];
    for first in kinds {
        for second in kinds {
            // With and without other receives before them, so both by the walk and by the indices.
            for others in [0, 1, 20] {
                let mut engine = Matching::<u32, u32>::new();
                for other in 0..others {
                    let _ = engine.post(pattern(1, Some(3), Some(other)), 100);
                }
                let _ = engine.post(pattern(1, first.0, first.1), 1);
                let _ = engine.post(pattern(1, second.0, second.1), 2);
                for expected in [
                    Arrival::Matched(1),
                    Arrival::Matched(2),
                    Arrival::Unexpected,
                ] {
                    assert_eq!(
                        engine.arrive(envelope(1, 2, 7), || 0),
                        expected,
                        "{first:?}, {second:?}"
                    );
                }
            }
        }
    }
}

/// Section 3.5: two messages of one sender that match one receive are received in the order sent; the
/// second receive takes the second, whichever of the two names the tag.
#[test]
fn messages_do_not_overtake() {
    for (first, second) in [
        (None, Some(7)),
        (Some(7), None),
        (Some(7), Some(7)),
        (None, None),
    ] {
        let mut engine = Matching::<u32, &str>::new();
        let _ = engine.arrive(envelope(1, 0, 7), || "buffer 1");
        let _ = engine.arrive(envelope(1, 0, 7), || "buffer 2");
        let one = engine.post(pattern(1, Some(0), first), 0);
        let two = engine.post(pattern(1, Some(0), second), 0);
        assert_eq!(one, Posting::Matched(envelope(1, 0, 7), "buffer 1"));
        assert_eq!(two, Posting::Matched(envelope(1, 0, 7), "buffer 2"));
    }
}

/// Section 3.5, *Progress* and its example of crossed tags: the order of the receives may differ from
/// that of the messages where tags tell them apart.
#[test]
fn tags_select_out_of_order() {
    let mut engine = Matching::<u32, u32>::new();
    let _ = engine.arrive(envelope(1, 0, 1), || 1);
    let _ = engine.arrive(envelope(1, 0, 2), || 2);
    let second = engine.post(pattern(1, Some(0), Some(2)), 0);
    let first = engine.post(pattern(1, Some(0), Some(1)), 0);
    assert_eq!(second, Posting::Matched(envelope(1, 0, 2), 2));
    assert_eq!(first, Posting::Matched(envelope(1, 0, 1), 1));
}

/// Section 3.8.1: after a probe, a receive with the source and tag that it gave gets the message that
/// the probe saw; one with the wildcards again as well, as nothing was received between.
#[test]
fn a_receive_after_a_probe_gets_what_the_probe_saw() {
    let mut engine = Matching::<u32, u32>::new();
    let _ = engine.arrive(envelope(1, 4, 9), || 1);
    let _ = engine.arrive(envelope(1, 3, 9), || 2);
    let (seen, message) = engine.peek(pattern(1, None, Some(9))).expect("two wait");
    assert_eq!((seen, message), (envelope(1, 4, 9), 1));
    assert_eq!(engine.peek(pattern(1, None, Some(9))), Some((seen, 1)));
    assert_eq!(engine.post(seen.into(), 0), Posting::Matched(seen, 1));
    assert_eq!(engine.peek(pattern(1, Some(4), None)), None);
}

/// Section 3.8.2: no other receive gets a message that a matched probe took.
#[test]
fn a_matched_probe_takes_the_message_away() {
    let mut engine = Matching::<u32, u32>::new();
    let _ = engine.arrive(envelope(1, 4, 9), || 1);
    assert_eq!(
        engine.take(pattern(1, None, None)),
        Some((envelope(1, 4, 9), 1))
    );
    assert_eq!(engine.take(pattern(1, None, None)), None);
    assert!(matches!(
        engine.post(pattern(1, Some(4), Some(9)), 0),
        Posting::Posted(_)
    ));
}

/// Section 3.8.4: a receive is either cancelled or receives, never both.
#[test]
fn cancel_and_match_exclude_each_other() {
    let mut engine = Matching::<u32, u32>::new();
    let Posting::Posted(handle) = engine.post(pattern(1, None, None), 1) else {
        panic!("empty")
    };
    assert_eq!(engine.arrive(envelope(1, 0, 0), || 0), Arrival::Matched(1));
    assert!(!engine.cancel(handle), "it was matched");
    // The place is reused: the old handle must not reach the new receive.
    let Posting::Posted(later) = engine.post(pattern(1, None, None), 2) else {
        panic!("empty")
    };
    assert!(!engine.cancel(handle));
    assert!(engine.cancel(later));
    assert!(!engine.cancel(later));
    assert_eq!(engine.arrive(envelope(1, 0, 0), || 0), Arrival::Unexpected);
}

/// Extreme values are values like others, and zero is not taken for a wildcard.
#[test]
fn every_value_is_a_value() {
    let values = [0, 1, u32::MAX - 1, u32::MAX];
    let tags = [0, 1, -1, i32::MIN, i32::MAX];
    let mut engine = Matching::<u32, (u32, u32, i32)>::new();
    for context in values {
        for source in values {
            for tag in tags {
                let _ = engine.arrive(envelope(context, source, tag), || (context, source, tag));
            }
        }
    }
    engine.check();
    for tag in tags {
        for source in values {
            for context in values {
                let expected = (envelope(context, source, tag), (context, source, tag));
                let all = pattern(context, None, Some(tag));
                assert_eq!(engine.peek(all).map(|found| found.0.tag.0), Some(tag));
                assert_eq!(
                    engine.take(envelope(context, source, tag).into()),
                    Some(expected)
                );
            }
        }
    }
    assert_eq!(engine.unexpected_len(), 0);
}

#[test]
fn many_keys_come_and_go_without_the_table_growing() {
    let (rounds, window) = if cfg!(miri) { (40, 10) } else { (5_000, 10) };
    let mut engine = Matching::<i32, i32>::new();
    for round in 0..rounds {
        let tags = round * window..(round + 1) * window;
        for tag in tags.clone() {
            let _ = engine.post(pattern(1, Some(0), Some(tag)), tag);
        }
        for tag in tags.rev() {
            assert_eq!(
                engine.arrive(envelope(1, 0, tag), || 0),
                Arrival::Matched(tag)
            );
        }
    }
    assert_eq!(engine.slots(WildcardKind::Exact), 64);
    engine.check();
}

#[test]
fn ten_thousand_meet_in_any_order() {
    let count = if cfg!(miri) { 48 } else { 10_000 };
    let steps = [count - 1, 7, 1, count / 2 - 1];
    // Miri has time for two of them.
    for &step in if cfg!(miri) { &steps[..2] } else { &steps } {
        // Steps without a common factor with the count visit every place once.
        let order = || (0..count).map(move |i| i * step % count);
        let mut engine = Matching::<i32, i32>::new();
        for tag in 0..count {
            let _ = engine.post(pattern(1, (tag % 3 != 0).then_some(5), Some(tag)), tag);
        }
        for tag in order() {
            assert_eq!(
                engine.arrive(envelope(1, 5, tag), || 0),
                Arrival::Matched(tag)
            );
        }
        for tag in 0..count {
            let _ = engine.arrive(envelope(1, 5, tag), || tag);
        }
        for tag in order() {
            let source = (tag % 3 != 0).then_some(5);
            let expected = Posting::Matched(envelope(1, 5, tag), tag);
            assert_eq!(engine.post(pattern(1, source, Some(tag)), tag), expected);
        }
        engine.check();
        assert_eq!((engine.posted_len(), engine.unexpected_len()), (0, 0));
    }
}
