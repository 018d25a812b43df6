/**
 * A byte pipe to one other side. Implementations never throw and never emit an unhandled error: whatever
 * breaks arrives once at onClose, after all bytes that came before it.
 */
export interface Transport {
  /** False: the other side reads slower than we write; wait for onDrain. */
  write(data: string | Uint8Array): boolean;
  /** Bytes accepted by write() and not yet taken by the other side. */
  readonly queuedBytes: number;
  onData(listener: (chunk: Uint8Array) => void): void;
  onDrain(listener: () => void): void;
  /** Once: the other side is gone (null) or the stream broke. */
  onClose(listener: (error: Error | null) => void): void;
  /** Stop delivering data; what arrives meanwhile stays with the other side. */
  pause(): void;
  resume(): void;
  /** Ends our writing side; what is queued still goes out. */
  close(): void;
}
