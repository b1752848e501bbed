//! The contract of all fabrics, in each way that this one can work.

mod common;

use weft_fabric::Fabric;
use weft_fabric::conformance::{InChannel, boxed};
use weft_fabric_shm::{Options, Shm, Use};

fn group(count: usize, options: &Options) -> Vec<Box<dyn Fabric>> {
    let count = u32::try_from(count).expect("a small group");
    boxed(Shm::group_with(count, options).expect("endpoints"))
}

weft_fabric::conformance!(by_copy, |count| group(count, &common::kernel_fences()));

weft_fabric::conformance!(by_chunks, |count| group(count, &common::without_attach()));

weft_fabric::conformance!(with_full_fences, |count| group(
    count,
    &common::full_fences()
));

weft_fabric::conformance!(by_chunks_with_full_fences, |count| group(
    count,
    &Options {
        cross_memory: Use::Off,
        kernel_fences: Use::Off,
        ..Options::default()
    }
));

weft_fabric::conformance!(with_few_records, |count| group(
    count,
    &Options {
        direct_grants: 2,
        ..Options::default()
    }
));

fn with_channels(count: usize, channels: u32) -> Vec<Box<dyn Fabric>> {
    let count = u32::try_from(count).expect("a small group");
    let options = common::kernel_fences();
    boxed(Shm::group_with_channels(count, channels, &options).expect("endpoints"))
}

weft_fabric::conformance!(beside_channels, |count| with_channels(count, 2));

weft_fabric::conformance!(in_another_channel, |count| InChannel::of(
    with_channels(count, 3),
    2
));
