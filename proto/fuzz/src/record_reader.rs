//! Record marking against a simple reader of the whole stream (RFC 5531 s11).

use headgate_proto::rpc::{RecordError, RecordReader, Step};

/// The records of a stream and how it ends, found the simple way.
fn reference(stream: &[u8], max: usize, max_empty: u32) -> (Vec<Vec<u8>>, Option<RecordError>) {
    let (mut records, mut record, mut rest, mut empty) = (Vec::new(), Vec::new(), stream, 0);
    loop {
        let Some((header, behind)) = rest.split_first_chunk::<4>() else { return (records, None) };
        let header = u32::from_be_bytes(*header);
        let len = (header & 0x7FFF_FFFF) as usize;
        if record.len() + len > max {
            return (records, Some(RecordError::TooLarge { announced: (record.len() + len) as u64 }));
        }
        empty = if len == 0 { empty + 1 } else { 0 };
        if empty > max_empty {
            return (records, Some(RecordError::TooManyEmptyFragments));
        }
        let Some((fragment, behind)) = behind.split_at_checked(len) else { return (records, None) };
        record.extend_from_slice(fragment);
        rest = behind;
        if header >> 31 == 1 {
            records.push(std::mem::take(&mut record));
        }
    }
}

/// The bytes: limit of a record (times 4), limit of empty fragments, size of a receive, then the stream.
pub fn run(data: &[u8]) {
    let [max, max_empty, chunk, stream @ ..] = data else { return };
    let max = *max as usize * 4;
    let max_empty = *max_empty as u32 % 20;
    // The lowest bit says whether payload is received straight into place.
    let in_place = chunk & 1 == 1;
    let chunk = (*chunk as usize >> 1) + 1;
    let (expected, expected_error) = reference(stream, max, max_empty);

    let mut reader = RecordReader::new(max).with_max_empty_fragments(max_empty);
    let (mut records, mut record, mut error) = (Vec::new(), Vec::new(), None);
    'stream: for received in stream.chunks(chunk) {
        let mut input = received;
        loop {
            let wanted = reader.wanted();
            if in_place && reader.remaining_in_fragment() > 0 && !input.is_empty() {
                assert_eq!(wanted, reader.remaining_in_fragment());
                let taken = reader.advance(input.len());
                assert!(taken > 0 && taken <= input.len());
                record.extend_from_slice(&input[..taken]);
                input = &input[taken..];
                continue;
            }
            match reader.feed(input) {
                Err(found) => {
                    assert_eq!(reader.feed(input), Err(found), "an error is final");
                    assert_eq!(reader.wanted(), 0);
                    error = Some(found);
                    break 'stream;
                }
                Ok(Step::NeedMore) => {
                    assert!(input.is_empty());
                    break;
                }
                Ok(Step::Marker { len }) => {
                    assert!(len > 0 && len <= wanted);
                    input = &input[len..];
                }
                Ok(Step::Payload { len }) => {
                    assert!(len > 0 && len <= wanted);
                    record.extend_from_slice(&input[..len]);
                    input = &input[len..];
                    assert!(record.len() <= max);
                    assert_eq!(reader.record_len(), record.len());
                }
                Ok(Step::End { record_len }) => {
                    assert_eq!(record_len, record.len());
                    assert!(reader.at_boundary());
                    records.push(std::mem::take(&mut record));
                }
            }
        }
    }
    assert_eq!(records, expected);
    assert_eq!(error, expected_error);
}
