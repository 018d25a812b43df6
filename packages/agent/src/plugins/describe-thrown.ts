const MAX_MESSAGE_LENGTH = 2_000;
const MAX_TRACE_LENGTH = 16_000;

/** Returns the thrown value as text. A value whose string conversion throws is handled too. */
export function describeThrown(error: unknown): { message: string; trace: string } {
  try {
    if (!(error instanceof Error)) return { message: String(error), trace: String(error) };
    const message = error.message.slice(0, MAX_MESSAGE_LENGTH);
    return { message, trace: (error.stack ?? message).slice(0, MAX_TRACE_LENGTH) };
  } catch {
    const message = "the plugin threw a value that cannot be converted to text";
    return { message, trace: message };
  }
}
