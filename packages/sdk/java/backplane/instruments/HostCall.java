package backplane.instruments;

import java.util.Map;

/** One call that was received, and the thread that serves it once it has started. */
final class HostCall implements InvocationContext {
  final Map<String, Object> params;
  final String id;
  private Thread thread;
  private boolean cancelled;

  HostCall(Map<String, Object> params) {
    this.params = params;
    this.id = params.get("invocationId") instanceof String text ? text : "";
  }

  synchronized void start() {
    thread = Thread.currentThread();
    if (cancelled) thread.interrupt();
  }

  synchronized void cancel() {
    cancelled = true;
    if (thread != null) thread.interrupt();
  }

  /** The thread may serve another call next, which must not be interrupted. */
  synchronized void end() {
    thread = null;
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

  private String textOr(String name, String fallback) {
    return params.get(name) instanceof String value ? value : fallback;
  }
}
