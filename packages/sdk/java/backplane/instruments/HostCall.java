package backplane.instruments;

import java.util.Map;

/** One call in flight, and the thread that serves it. */
final class HostCall implements InvocationContext {
  private final Map<String, Object> params;
  private final Thread thread;
  final String id;
  private boolean cancelled;
  private boolean ended;

  HostCall(Map<String, Object> params, Thread thread) {
    this.params = params;
    this.thread = thread;
    this.id = params.get("invocationId") instanceof String text ? text : "";
  }

  synchronized void cancel() {
    cancelled = true;
    // The thread may already serve another call, which must not be interrupted.
    if (!ended) thread.interrupt();
  }

  synchronized void end() {
    ended = true;
    Thread.interrupted();
  }

  @Override
  public synchronized boolean isCancelled() {
    return cancelled;
  }

  @Override
  public String activityId() {
    return textOr("activityId", "");
  }

  @Override
  public String sessionId() {
    return textOr("sessionId", "");
  }

  @Override
  public String traceId() {
    return textOr("traceId", null);
  }

  @Override
  public Long timeoutMs() {
    return params.get("timeoutMs") instanceof Number ms ? Long.valueOf(ms.longValue()) : null;
  }

  @Override
  public String dataDirPath() {
    return textOr("dataDirPath", null);
  }

  private String textOr(String name, String otherwise) {
    return params.get(name) instanceof String value ? value : otherwise;
  }
}
