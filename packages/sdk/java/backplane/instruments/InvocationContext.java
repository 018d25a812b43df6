package backplane.instruments;

/** One call. When it is cancelled or over its time, its thread is interrupted as well. */
public interface InvocationContext {
  String activityId();

  String sessionId();

  /** Null where there is none. */
  String traceId();

  /** Null where the caller set none. */
  Long timeoutMs();

  /** Null where there is none. */
  String dataDirPath();

  boolean isCancelled();
}
