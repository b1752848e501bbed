//! The engine against two plain lists.

use proptest::prelude::*;

use super::*;

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

/// What the standard says, in two lists.
#[derive(Default)]
struct Naive {
    posted: Vec<(Pattern, u32)>,
    unexpected: Vec<(Envelope, u32)>,
}

impl Naive {
    fn arrive(&mut self, envelope: Envelope, name: u32) -> Arrival<u32> {
        match self
            .posted
            .iter()
            .position(|(pattern, _)| pattern.takes(&envelope))
        {
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
            .position(|(envelope, _)| pattern.takes(envelope))
    }
}

#[derive(Clone, Debug)]
enum Act {
    Arrive(Envelope),
    Post(Pattern),
    Peek(Pattern),
    Take(Pattern),
    Cancel(usize),
    Drop(u32),
}

fn acts() -> impl Strategy<Value = Act> {
    let keys = || (0..2u32, 0..4u32, 0..5i32);
    let patterns = || {
        (
            0..2u32,
            prop::option::weighted(0.7, 0..4u32),
            prop::option::weighted(0.7, 0..5i32),
        )
            .prop_map(|(context, source, tag)| pattern(context, source, tag))
    };
    prop_oneof![
        8 => keys().prop_map(|(context, source, tag)| Act::Arrive(envelope(context, source, tag))),
        8 => patterns().prop_map(Act::Post),
        2 => patterns().prop_map(Act::Peek),
        1 => patterns().prop_map(Act::Take),
        1 => (0..50usize).prop_map(Act::Cancel),
        1 => (0..40u32).prop_map(Act::Drop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 400 }))]
    #[test]
    fn behaves_as_two_lists(acts in prop::collection::vec(acts(), 1..300)) {
        let (mut engine, mut naive) = (Matching::new(), Naive::default());
        let mut handles = Vec::new();
        for (name, act) in (0u32..).zip(acts) {
            match act {
                Act::Arrive(envelope) => {
                    prop_assert_eq!(engine.arrive(envelope, || name), naive.arrive(envelope, name));
                }
                Act::Post(pattern) => match engine.post(pattern, name) {
                    Posting::Matched(envelope, message) => {
                        let place = naive.find(&pattern).expect("the lists have one, too");
                        prop_assert_eq!(naive.unexpected.remove(place), (envelope, message));
                    }
                    Posting::Posted(handle) => {
                        prop_assert_eq!(naive.find(&pattern), None);
                        naive.posted.push((pattern, name));
                        handles.push((handle, name));
                    }
                },
                Act::Peek(pattern) => {
                    prop_assert_eq!(engine.peek(pattern), naive.find(&pattern).map(|place| naive.unexpected[place]));
                }
                Act::Take(pattern) => {
                    let expected = naive.find(&pattern).map(|place| naive.unexpected.remove(place));
                    prop_assert_eq!(engine.take(pattern), expected);
                }
                Act::Cancel(which) => {
                    let Some((handle, name)) = handles.get(which) else { continue };
                    let place = naive.posted.iter().position(|(_, other)| other == name);
                    prop_assert_eq!(engine.cancel(*handle), place.is_some());
                    if let Some(place) = place {
                        naive.posted.remove(place);
                    }
                }
                Act::Drop(context) => {
                    let context = Context(context);
                    let left = engine.drop_context(context);
                    let posted: Vec<_> = naive.posted.iter().copied().filter(|(pattern, _)| pattern.context == context).collect();
                    let unexpected: Vec<_> =
                        naive.unexpected.iter().copied().filter(|(envelope, _)| envelope.context == context).collect();
                    prop_assert_eq!(left, Leftover { posted, unexpected });
                    naive.posted.retain(|(pattern, _)| pattern.context != context);
                    naive.unexpected.retain(|(envelope, _)| envelope.context != context);
                }
            }
            prop_assert_eq!(engine.posted_len(), naive.posted.len());
            prop_assert_eq!(engine.unexpected_len(), naive.unexpected.len());
        }
    }
}

#[test]
fn an_older_wildcard_goes_before_a_newer_exact_receive() {
    let mut engine = Matching::<u32, u32>::new();
    let _ = engine.post(pattern(1, None, Some(7)), 1);
    let _ = engine.post(pattern(1, Some(2), Some(7)), 2);
    assert_eq!(engine.arrive(envelope(1, 2, 7), || 0), Arrival::Matched(1));
    assert_eq!(engine.arrive(envelope(1, 2, 7), || 0), Arrival::Matched(2));
}

#[test]
fn messages_that_came_before_the_first_wildcard_are_found_by_it_in_order() {
    let mut engine = Matching::<u32, u32>::new();
    for name in 0..10 {
        let _ = engine.arrive(envelope(1, name % 3, name.cast_signed()), || name);
    }
    for name in 0..10 {
        let Posting::Matched(_, message) = engine.post(pattern(1, None, None), 99) else {
            panic!("there are ten")
        };
        assert_eq!(message, name);
    }
}

#[test]
fn many_keys_come_and_go_without_the_table_growing_for_ever() {
    let mut engine = Matching::<u32, u32>::new();
    for tag in 0..100_000 {
        let _ = engine.arrive(envelope(1, 0, tag), || 0);
        assert!(matches!(
            engine.post(pattern(1, Some(0), Some(tag)), 0),
            Posting::Matched(..)
        ));
    }
    assert!(
        engine.table.capacity() <= 256,
        "{} places for one message at a time",
        engine.table.capacity()
    );
    for tag in 0..10_000 {
        let _ = engine.post(pattern(1, Some(0), Some(tag)), 7);
    }
    for tag in (0..10_000).rev() {
        assert_eq!(
            engine.arrive(envelope(1, 0, tag), || 0),
            Arrival::Matched(7)
        );
    }
    assert_eq!(engine.posted_len(), 0);
}
