package backplane.instruments;

/** One call. A cancellation or an expired deadline also interrupts the thread of the call. */
public interface InvocationContext {
  String activityId();

  String sessionId();

  /** Null if there is none. */
  String traceId();

  /** Null if the caller set none. */
  Long timeoutMs();

  /** Null if there is none. */
  String dataDirPath();

  boolean isCancelled();
}
