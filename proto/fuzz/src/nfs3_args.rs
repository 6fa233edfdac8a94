//! Arguments of the NFSv3 procedures (RFC 1813 s3.3).

use headgate_proto::nfs3::{CallArgs, FileHandle, Procedure, write};
use headgate_proto::xdr::{Encode, Error, Reader, Writer};

use super::common::{encode, select};

/// The arguments in their wire form, the data of a WRITE taken from `record`.
fn encode_args(args: &CallArgs<'_>, record: &[u8]) -> Vec<u8> {
    match args {
        CallArgs::Null => Vec::new(),
        CallArgs::Getattr(a) => encode(a),
        CallArgs::Setattr(a) => encode(a),
        CallArgs::Lookup(a) => encode(a),
        CallArgs::Access(a) => encode(a),
        CallArgs::Readlink(a) => encode(a),
        CallArgs::Read(a) => encode(a),
        CallArgs::Write(a) => {
            assert_eq!(a.count, a.data.len);
            let head = write::ArgsHead { file: a.file, offset: a.offset, count: a.count, stable: a.stable };
            let mut wire = encode(&head);
            assert_eq!(wire.len(), a.data.offset);
            let data = a.data.in_record(record).expect("the data is in the record");
            let mut body = vec![0; data.len() + 7];
            let mut w = Writer::new(&mut body);
            data.encode(&mut w).expect("a length word and three pad bytes more");
            wire.extend_from_slice(&w.written()[4..]);
            wire
        }
        CallArgs::Create(a) => encode(a),
        CallArgs::Mkdir(a) => encode(a),
        CallArgs::Symlink(a) => encode(a),
        CallArgs::Mknod(a) => encode(a),
        CallArgs::Remove(a) | CallArgs::Rmdir(a) => encode(a),
        CallArgs::Rename(a) => encode(a),
        CallArgs::Link(a) => encode(a),
        CallArgs::Readdir(a) => encode(a),
        CallArgs::Readdirplus(a) => encode(a),
        CallArgs::Fsstat(a) => encode(a),
        CallArgs::Fsinfo(a) => encode(a),
        CallArgs::Pathconf(a) => encode(a),
        CallArgs::Commit(a) => encode(a),
    }
}

/// The bytes: procedure, the head's size, the arguments.
pub fn run(data: &[u8]) {
    let Some((procedure, head, record)) = select(data) else { return };
    let Some(procedure) = Procedure::from_u32(procedure as u32 % 22) else { return };
    let decoded = CallArgs::decode(procedure, &mut Reader::new(record));
    let mut split = Reader::with_total(&record[..head.min(record.len())], record.len());
    match (&decoded, CallArgs::decode(procedure, &mut split)) {
        (_, Err(Error::BeyondHead)) => {}
        // Pad bytes beyond the head are not seen.
        (Err(Error::BadPad), Ok(CallArgs::Write(_))) => {}
        // Those of a WRITE are seen before its count is compared.
        (Err(Error::BadPad), Err(Error::Inconsistent)) if procedure == Procedure::Write => {}
        (decoded, seen) => assert_eq!(*decoded, seen, "through a head of {head} bytes"),
    }
    if let Ok(args) = decoded {
        assert_eq!(args.procedure(), procedure);
        assert_eq!(encode_args(&args, record), record);
        if let CallArgs::Getattr(args) = args {
            assert!(args.object.as_bytes().len() <= 64);
            assert_eq!(FileHandle::new(args.object.as_bytes()), Some(args.object));
        }
    }
}
