//! What the property tests share: strategies for the types that borrow nothing, and the round trip itself.

#![allow(dead_code, reason = "each test uses some of it")]

use std::fmt::Debug;

use headgate_proto::nfs3::{
    Createhow3, Fattr3, FileHandle, Ftype3, Nfsstat3, Nfstime3, PostOpAttr, PostOpFh3, Sattr3, SetTime,
    Specdata3, WccAttr, WccData,
};
use headgate_proto::xdr::{Decode, Encode, Error, Full, Reader, Writer};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Encodes, and hands the wire form to [`decodes_to`].
///
/// Checks on the way that the size was said right, and that a smaller buffer is [`Full`].
pub fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut buf = vec![0xA5; value.encoded_len()];
    let mut w = Writer::new(&mut buf);
    value.encode(&mut w).unwrap();
    assert_eq!(w.remaining(), 0);
    if let Some(less) = buf.len().checked_sub(1) {
        assert_eq!(value.encode(&mut Writer::new(&mut vec![0; less])), Err(Full));
    }
    buf
}

/// The wire form decodes to `value`; cut anywhere it does not decode, and in a longer record with a short head the
/// reader asks for more.
pub fn decodes_to<'a, T: Decode<'a> + PartialEq + Debug>(wire: &'a [u8], value: &T) {
    let mut r = Reader::new(wire);
    assert_eq!(T::decode(&mut r).as_ref(), Ok(value));
    assert_eq!(r.finish(), Ok(()));
    for len in 0..wire.len() {
        assert_eq!(T::decode(&mut Reader::new(&wire[..len])).err(), Some(Error::Truncated));
        let seen = T::decode(&mut Reader::with_total(&wire[..len], wire.len()));
        assert_eq!(seen.err(), Some(Error::BeyondHead));
    }
}

/// `round_trip!(value)`: encoding and decoding lead back to the value. (A macro, because the decoded value borrows.)
#[macro_export]
macro_rules! round_trip {
    ($value:expr) => {
        // `match` keeps temporaries of the expression alive.
        match $value {
            value => {
                let wire = $crate::common::encoded(&value);
                $crate::common::decodes_to(&wire, &value);
            }
        }
    };
}

pub fn handle_bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=64)
}

pub fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![8 => vec(any::<u8>(), 0..20), 1 => vec(any::<u8>(), 250..300)]
}

pub fn fh(bytes: &[u8]) -> FileHandle<'_> {
    FileHandle::new(bytes).unwrap()
}

pub fn post_op_fh(bytes: &Option<Vec<u8>>) -> PostOpFh3<'_> {
    PostOpFh3(bytes.as_deref().map(fh))
}

pub fn time() -> impl Strategy<Value = Nfstime3> {
    any::<(u32, u32)>().prop_map(|(seconds, nseconds)| Nfstime3 { seconds, nseconds })
}

pub fn specdata() -> impl Strategy<Value = Specdata3> {
    any::<(u32, u32)>().prop_map(|(major, minor)| Specdata3 { major, minor })
}

pub fn status() -> impl Strategy<Value = Nfsstat3> {
    prop::sample::select(Nfsstat3::ALL)
}

pub fn fattr() -> impl Strategy<Value = Fattr3> {
    let words = any::<(u32, u32, u32, u32)>();
    let longs = any::<(u64, u64, u64, u64)>();
    (prop::sample::select(Ftype3::ALL), words, longs, specdata(), (time(), time(), time())).prop_map(
        |(ftype, (mode, nlink, uid, gid), (size, used, fsid, fileid), rdev, (atime, mtime, ctime))| Fattr3 {
            ftype,
            mode,
            nlink,
            uid,
            gid,
            size,
            used,
            rdev,
            fsid,
            fileid,
            atime,
            mtime,
            ctime,
        },
    )
}

pub fn post_op_attr() -> impl Strategy<Value = PostOpAttr> {
    option::of(fattr()).prop_map(PostOpAttr)
}

pub fn wcc() -> impl Strategy<Value = WccData> {
    let before =
        (any::<u64>(), time(), time()).prop_map(|(size, mtime, ctime)| WccAttr { size, mtime, ctime });
    (option::of(before), post_op_attr()).prop_map(|(before, after)| WccData { before, after })
}

pub fn set_time() -> impl Strategy<Value = SetTime> {
    prop_oneof![Just(SetTime::DontChange), Just(SetTime::ServerTime), time().prop_map(SetTime::ClientTime)]
}

pub fn sattr() -> impl Strategy<Value = Sattr3> {
    (any::<(Option<u32>, Option<u32>, Option<u32>, Option<u64>)>(), set_time(), set_time())
        .prop_map(|((mode, uid, gid, size), atime, mtime)| Sattr3 { mode, uid, gid, size, atime, mtime })
}

pub fn createhow() -> impl Strategy<Value = Createhow3> {
    prop_oneof![
        sattr().prop_map(Createhow3::Unchecked),
        sattr().prop_map(Createhow3::Guarded),
        any::<[u8; 8]>().prop_map(Createhow3::Exclusive),
    ]
}
