package backplane.instruments;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The bundled host for Java: `java -cp instrument-host.jar:. backplane.instruments.InstrumentHost
 * com.example.MyProvider` implements the External protocol (JSON-RPC 2.0, one message per line) for a class that
 * implements InstrumentProvider. Calls to instruments run on their own threads, so a slow call does not delay others.
 * Output that the plugin prints goes to stderr.
 */
public final class InstrumentHost {
  private static final Set<String> SLOW_METHODS = Set.of("listInstruments", "invoke", "healthCheck");

  private final String providerClass;
  private final PrintStream out;
  private final Map<String, HostCall> running = new ConcurrentHashMap<>();
  private boolean initializeCalled;
  private volatile InstrumentProvider provider;
  private volatile Map<String, Instrument> instruments;

  private InstrumentHost(String providerClass, PrintStream out) {
    this.providerClass = providerClass;
    this.out = out;
  }

  public static void main(String[] args) throws IOException {
    if (args.length != 1) {
      System.err.println("usage: java -cp HOST.jar:PLUGIN.jar backplane.instruments.InstrumentHost com.example.MyProvider");
      System.exit(2);
    }
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err);
    InstrumentHost host = new InstrumentHost(args[0], out);
    ExecutorService threads =
        Executors.newCachedThreadPool(
            work -> {
              Thread thread = new Thread(work, "instrument");
              thread.setDaemon(true);
              return thread;
            });
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    // The plugin must not read or write the protocol's pipe.
    System.setIn(InputStream.nullInputStream());
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      if (!line.isBlank()) host.receive(line, threads);
    }
    // The gateway has closed the pipe.
    System.exit(0);
  }

  /** Slow requests run on other threads, so that this thread can read a `cancel` in the meantime. */
  private void receive(String line, ExecutorService threads) {
    Object message;
    try {
      message = Json.parse(line);
    } catch (IllegalArgumentException e) {
      send(error(null, ProtocolException.PARSE_ERROR, "Parse error: " + e.getMessage()));
      return;
    }
    if (isSlow(message)) {
      register(message);
      threads.execute(() -> answer(message));
    } else {
      answer(message);
    }
  }

  /** Runs on the reading thread, so that a `cancel` that follows finds the call even if no thread has started it. */
  @SuppressWarnings("unchecked")
  private void register(Object message) {
    if (message instanceof List<?> batch) batch.forEach(this::register);
    else if (message instanceof Map<?, ?> request
        && "invoke".equals(request.get("method"))
        && request.get("params") instanceof Map<?, ?> params) {
      HostCall call = new HostCall((Map<String, Object>) params);
      running.put(call.id, call);
    }
  }

  private void answer(Object message) {
    respond(message instanceof List<?> batch ? handleBatch(batch) : handle(message));
    if (isShutdown(message)) System.exit(0);
  }

  private static boolean isSlow(Object message) {
    if (message instanceof List<?> batch) return batch.stream().anyMatch(InstrumentHost::isSlow);
    return message instanceof Map<?, ?> request && SLOW_METHODS.contains(String.valueOf(request.get("method")));
  }

  private Object handleBatch(List<?> batch) {
    if (batch.isEmpty()) return error(null, ProtocolException.INVALID_REQUEST, "The batch is empty");
    List<Object> responses = new ArrayList<>();
    for (Object request : batch) {
      Object response = handle(request);
      if (response != null) responses.add(response);
    }
    return responses.isEmpty() ? null : responses;
  }

  private static boolean isShutdown(Object message) {
    if (message instanceof List<?> batch) return batch.stream().anyMatch(InstrumentHost::isShutdown);
    return message instanceof Map<?, ?> request && "shutdown".equals(request.get("method"));
  }

  private void respond(Object response) {
    if (response != null) send(response);
  }

  private void send(Object response) {
    String line = serialize(response);
    synchronized (out) {
      out.print(line + "\n");
      out.flush();
    }
  }

  /** A result may not be serializable: it may contain itself or throw when read. The caller needs a reply. */
  private static String serialize(Object response) {
    try {
      return Json.write(response);
    } catch (Throwable e) {
      Object id = response instanceof Map<?, ?> fields ? fields.get("id") : null;
      return Json.write(error(id, ProtocolException.PROVIDER_FAILED, "the result cannot be written as JSON: " + messageOf(e)));
    }
  }

  @SuppressWarnings("unchecked")
  private Object handle(Object message) {
    if (!(message instanceof Map<?, ?> raw)) return error(null, ProtocolException.INVALID_REQUEST, "Invalid Request");
    Map<String, Object> request = (Map<String, Object>) raw;
    // The message is a response to a request that this host never sent.
    if (!request.containsKey("method") && (request.containsKey("result") || request.containsKey("error"))) return null;
    Object id = request.get("id");
    if (!"2.0".equals(request.get("jsonrpc")) || !(request.get("method") instanceof String method)) {
      return error(id, ProtocolException.INVALID_REQUEST, "Invalid Request");
    }
    Object response;
    try {
      Object params = request.getOrDefault("params", Map.of());
      if (!(params instanceof Map<?, ?>)) throw new ProtocolException(ProtocolException.INVALID_PARAMS, "the parameters must be an object");
      response = map("jsonrpc", "2.0", "id", id, "result", call(method, (Map<String, Object>) params));
    } catch (ProtocolException e) {
      response = error(id, e.code, e.getMessage());
    }
    // A notification has no id and gets no response, even if it fails.
    return request.containsKey("id") ? response : null;
  }

  private Object call(String method, Map<String, Object> params) {
    return switch (method) {
      case "initialize" -> initialize(params);
      case "listInstruments" -> map("instruments", list());
      case "invoke" -> invoke(params);
      case "healthCheck" -> healthCheck(ProtocolException.text(params, "instrument"));
      case "cancel" -> cancel(ProtocolException.text(params, "invocationId"));
      case "shutdown" -> shutdown();
      default -> throw new ProtocolException(ProtocolException.METHOD_NOT_FOUND, "unknown method " + method);
    };
  }

  private synchronized Object initialize(Map<String, Object> params) {
    if (initializeCalled) throw new ProtocolException(ProtocolException.INVALID_REQUEST, "initialize was already called");
    initializeCalled = true;
    HostContext context = new HostContext(params);
    try {
      Object instance = Class.forName(providerClass).getDeclaredConstructor().newInstance();
      InstrumentProvider loaded = instance instanceof InstrumentProvider direct ? direct : HeftyProvider.adapt(instance);
      if (loaded == null) {
        throw new IllegalStateException(
            providerClass
                + " implements neither "
                + InstrumentProvider.class.getName()
                + " nor hefty.core.instrument.plugin.InstrumentProvider");
      }
      loaded.initialize(context);
      provider = loaded;
    } catch (Throwable e) {
      throw failed("initialize", e);
    }
    return map("success", true);
  }

  private List<Object> list() {
    InstrumentProvider current = requireProvider();
    try {
      Map<String, Instrument> named = new LinkedHashMap<>();
      List<Object> declared = new ArrayList<>();
      for (Instrument instrument : current.instruments()) {
        List<Object> rules = new ArrayList<>();
        for (SecurityRule rule : instrument.securityRules()) rules.add(rule.toJson());
        Map<String, Object> metadata = instrument.metadata().toJson();
        declared.add(
            map(
                "name", instrument.name(),
                "riskLevel", instrument.riskLevel().name(),
                "metadata", metadata,
                "securityRules", rules));
        named.put(instrument.name(), instrument);
      }
      instruments = named;
      return declared;
    } catch (Throwable e) {
      throw failed("instruments", e);
    }
  }

  @SuppressWarnings("unchecked")
  private Object invoke(Map<String, Object> params) {
    HostCall call = findRegistered(params);
    call.start();
    try {
      Instrument instrument = find(ProtocolException.text(params, "instrument"));
      if (!(params.getOrDefault("params", Map.of()) instanceof Map<?, ?> arguments)) {
        throw new ProtocolException(ProtocolException.INVALID_PARAMS, "params must be an object");
      }
      return invoke(instrument, (Map<String, Object>) arguments, call);
    } finally {
      call.end();
      running.remove(call.id, call);
    }
  }

  /** A later call with the same invocation id replaces an earlier one, which can then no longer be cancelled. */
  private HostCall findRegistered(Map<String, Object> params) {
    HostCall call = new HostCall(params);
    HostCall registered = running.get(call.id);
    return registered != null && registered.params == params ? registered : call;
  }

  private Object invoke(Instrument instrument, Map<String, Object> arguments, HostCall call) {
    try {
      InstrumentResult result = instrument.invoke(arguments, call);
      if (result != null) return result.toJson();
      return InstrumentResult.error("MALFORMED_RESULT", instrument.name() + " returned no result").toJson();
    } catch (UnsupportedOperationException e) {
      return InstrumentResult.error("UnsupportedOperation", messageOf(e)).toJson();
    } catch (LinkageError e) {
      String missing = MissingClass.explain(e);
      return InstrumentResult.error("EXCEPTION", missing == null ? messageOf(e) : missing).toJson();
    } catch (Throwable e) {
      return InstrumentResult.error("EXCEPTION", messageOf(e)).toJson();
    }
  }

  private Object healthCheck(String name) {
    Instrument instrument = find(name);
    try {
      InstrumentHealth health = instrument.healthCheck();
      if (health != null) return health.toJson();
      return InstrumentHealth.unhealthy("healthCheck returned no health status").toJson();
    } catch (Throwable e) {
      return InstrumentHealth.unhealthy(messageOf(e)).toJson();
    }
  }

  private Object cancel(String invocationId) {
    HostCall call = running.get(invocationId);
    if (call != null) call.cancel();
    return null;
  }

  private Object shutdown() {
    InstrumentProvider current = requireProvider();
    provider = null;
    try {
      current.shutdown();
    } catch (Throwable e) {
      throw failed("shutdown", e);
    }
    return map("success", true);
  }

  private InstrumentProvider requireProvider() {
    InstrumentProvider current = provider;
    if (current == null) throw new ProtocolException(ProtocolException.NOT_INITIALIZED, "the provider is not initialized");
    return current;
  }

  private Instrument find(String name) {
    requireProvider();
    if (instruments == null) list();
    Instrument instrument = instruments.get(name);
    if (instrument == null) throw new ProtocolException(ProtocolException.INVALID_PARAMS, "unknown instrument " + name);
    return instrument;
  }

  private static ProtocolException failed(String step, Throwable e) {
    Throwable cause = e instanceof java.lang.reflect.InvocationTargetException && e.getCause() != null ? e.getCause() : e;
    trace(cause);
    String missing = MissingClass.explain(cause);
    return new ProtocolException(ProtocolException.PROVIDER_FAILED, step + ": " + (missing == null ? messageOf(cause) : missing));
  }

  private static void trace(Throwable e) {
    try {
      e.printStackTrace();
    } catch (Throwable ignored) {
      System.err.println(e.getClass().getName());
    }
  }

  private static String messageOf(Throwable e) {
    try {
      String message = e.getMessage();
      return message == null ? e.getClass().getName() : message;
    } catch (Throwable ignored) {
      return e.getClass().getName();
    }
  }

  private static Map<String, Object> error(Object id, int code, String message) {
    return map("jsonrpc", "2.0", "id", id, "error", map("code", code, "message", message));
  }

  private static Map<String, Object> map(Object... pairs) {
    Map<String, Object> map = new LinkedHashMap<>();
    for (int at = 0; at < pairs.length; at += 2) map.put((String) pairs[at], pairs[at + 1]);
    return map;
  }
}
