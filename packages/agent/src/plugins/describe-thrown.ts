const MAX_MESSAGE_LENGTH = 2_000;
const MAX_TRACE_LENGTH = 16_000;

/** Returns the thrown value as text. A value whose string conversion throws is handled too. */
export function describeThrown(error: unknown): { message: string; trace: string } {
  try {
    const { message, stack = message } =
      error instanceof Error ? error : { message: String(error), stack: undefined };
    return { message: message.slice(0, MAX_MESSAGE_LENGTH), trace: stack.slice(0, MAX_TRACE_LENGTH) };
  } catch {
    const message = "the plugin threw a value that cannot be converted to text";
    return { message, trace: message };
  }
}
