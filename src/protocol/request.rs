//! A call on its way through a program (RFC 5531 s9).

use headgate_proto::rpc::Credential;
use headgate_proto::xdr::{self, Decode, Encode, Reader, TrailingOpaque};

use super::{ConnInfo, Outcome, ReplyHead};
use crate::memory::{BufSlice, Payload};

/// A call whose header has been decoded; the arguments are yet to be.
pub struct Request<'a> {
    /// Where it came from.
    pub conn: &'a ConnInfo,
    /// The client's transaction id.
    pub xid: u32,
    /// The program that is called.
    pub program: u32,
    /// One of the program's versions.
    pub version: u32,
    /// Any number: the program knows its procedures.
    pub procedure: u32,
    /// Who the caller says to be. Not yet judged by any rule.
    pub credential: Credential<'a>,
    /// The arguments: a reader over the contiguous head of the record, which knows the record's whole length.
    pub args: Reader<'a>,
    /// What the program notes for the counters: its status (0: fine), and payload bytes moved.
    pub note: Note,
    record: &'a mut Payload,
}

/// What a program tells the observers about a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The program's own status; 0 is success in all programs that are served here.
    pub status: u32,
    /// File data that came in with the call.
    pub bytes_in: u64,
    /// File data that goes out with the reply.
    pub bytes_out: u64,
    /// The export that the call was for, by its place in the configuration.
    pub export: Option<usize>,
}

impl<'a> Request<'a> {
    /// A call as [`super::rpc`] found it: `args` is the reader that the header was decoded from.
    pub(super) fn new(
        conn: &'a ConnInfo,
        call: &headgate_proto::rpc::Call<'a>,
        args: Reader<'a>,
        record: &'a mut Payload,
    ) -> Self {
        Self {
            conn,
            xid: call.xid,
            program: call.prog,
            version: call.vers,
            procedure: call.proc,
            credential: call.cred,
            args,
            note: Note::default(),
            record,
        }
    }

    /// Decodes the arguments, which must fill the record to its end. The values borrow from the record, not from the request.
    ///
    /// # Errors
    /// [`xdr::Error::BeyondHead`] says that the arguments are well formed as far as they were looked at, but hold a name that is
    /// longer than any that is served. Every other error is [`Outcome::GarbageArgs`].
    pub fn decode<T: Decode<'a>>(&mut self) -> xdr::Result<T> {
        let value = T::decode(&mut self.args)?;
        self.args.finish()?;
        Ok(value)
    }

    /// The first `max_bytes` of the data at the end of the record, out of the memory that it was received into: nothing is copied. Once only: a second call
    /// finds nothing.
    pub fn take_data(&mut self, place: TrailingOpaque, max_bytes: usize) -> Payload {
        let mut record = std::mem::take(self.record);
        if record.total_len() < place.end() {
            return Payload::new();
        }
        record.advance(place.offset);
        record.truncate(max_bytes.min(place.len as usize));
        record
    }

    /// The arguments' bytes, however the record is cut.
    pub(super) fn args_segments(&self) -> impl Iterator<Item = &[u8]> {
        let mut skip = self.args.position();
        self.record.iter().filter_map(move |segment| {
            let start = skip.min(segment.len());
            skip -= start;
            Some(&segment[start..]).filter(|rest| !rest.is_empty())
        })
    }

    /// An answer of fixed results.
    pub async fn reply(&self, results: &impl Encode) -> Outcome {
        self.encode_reply(results, None).await
    }

    /// An answer that ends in `data`, whose length word is the last of `results`; the transport sends the bytes, and their padding,
    /// from where they are.
    pub async fn reply_with_data(&self, results: &impl Encode, data: BufSlice) -> Outcome {
        self.encode_reply(results, Some(data)).await
    }

    /// Room for results of at most `len_bytes` bytes that are written piece by piece; [`Outcome::Success`] takes what comes of it.
    /// `None` if no buffer is so large.
    pub async fn reply_head(&self, len_bytes: usize) -> Option<ReplyHead> {
        ReplyHead::success(self.xid, len_bytes).await
    }

    async fn encode_reply(&self, results: &impl Encode, data: Option<BufSlice>) -> Outcome {
        let Some(mut head) = self.reply_head(results.encoded_len()).await else { return Outcome::SystemErr };
        match head.write(|w| results.encode(w)) {
            Ok(()) => Outcome::Success(head.finish(data)),
            Err(_) => Outcome::SystemErr,
        }
    }
}
