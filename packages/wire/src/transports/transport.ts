/**
 * A byte pipe to a peer. Implementations never throw and never emit an unhandled error: a failure is reported once by
 * onClose, after all bytes that arrived before it.
 */
export interface Transport {
  /** Returns false if the peer reads too slowly; the caller should wait for onDrain. */
  write(data: string | Uint8Array): boolean;
  /** Bytes accepted by write() that are still queued in this process; buffers of the operating system do not count. */
  readonly queuedBytes: number;
  onData(listener: (chunk: Uint8Array) => void): void;
  onDrain(listener: () => void): void;
  /** Called once: with null when the peer has closed the stream, otherwise with the error that ended it. */
  onClose(listener: (error: Error | null) => void): void;
  /** Stops delivering data until resume() is called. Unread bytes stay in the pipe or with the peer. */
  pause(): void;
  resume(): void;
  /** Closes the writing side after queued bytes have been written. */
  close(): void;
}
