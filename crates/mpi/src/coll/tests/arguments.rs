//! Wrong arguments, and ranks that disagree.

use super::reducing::user;
use super::*;
use crate::op::{Op, Predefined};

#[test]
fn wrong_arguments_have_the_class_of_the_standard() {
    let setting = Setting {
        size: 3,
        crowded: false,
        in_place: false,
        gaps: false,
        count: 2,
        hosts: Arrangement::OneHost,
    };
    let members = setting.members(1);
    let mut memory = Memory::new(&setting, 2);
    let buffer = memory.buffer(2);
    let class = |result: Result<Schedule>| result.unwrap_err().class();
    assert_eq!(class(bcast(&members, &buffer, 3)), ErrorClass::Root);
    assert_eq!(
        class(gather(&members, Some(&buffer), None, 7)),
        ErrorClass::Root
    );
    assert_eq!(
        class(gather(&members, Some(&buffer), None, 1)),
        ErrorClass::Buffer
    );
    let two = memory.even(1, 2);
    assert_eq!(class(allgather(&members, None, &two)), ErrorClass::Count);
    let sum = Reduction {
        count: 2,
        datatype: setting.datatype(),
        op: Op::predefined(Predefined::Sum),
    };
    // The datatype is not a predefined one.
    assert_eq!(
        class(allreduce(&members, &buffer, &buffer, &sum)),
        ErrorClass::Op
    );
    let long = Reduction {
        count: 3,
        op: user(true),
        ..sum
    };
    assert_eq!(
        class(allreduce(&members, &buffer, &buffer, &long)),
        ErrorClass::Truncate
    );
}

#[test]
fn disagreement_about_sizes_is_seen_by_a_receiver() {
    let setting = Setting {
        size: 4,
        crowded: false,
        in_place: false,
        gaps: false,
        count: 3,
        hosts: Arrangement::OneHost,
    };
    let mut memory: Vec<Memory> = (0..4).map(|_| Memory::new(&setting, 3)).collect();
    let counts = [3, 3, 2, 3];
    let buffers: Vec<Buffer> = memory
        .iter_mut()
        .zip(counts)
        .map(|(one, count)| one.buffer(count))
        .collect();
    let schedules = (0..4).map(|rank| bcast(&setting.members(rank), &buffers[rank], 0).unwrap());
    let error = run(schedules.collect(), &mut Random(77)).unwrap_err();
    assert!(
        error.contains("sends 24 bytes to 2, which expects 16"),
        "{error}"
    );
}
