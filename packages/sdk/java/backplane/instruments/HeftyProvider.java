package backplane.instruments;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Runs a provider that was compiled against Hefty's own API (hefty.core.instrument), with the Scala and Circe libraries
 * that the plugin includes. Its methods are called by the names and signatures that Hefty's guide publishes.
 */
final class HeftyProvider implements InstrumentProvider {
  private static final String API = "hefty.core.instrument.";
  private static final Set<String> LEVELS = Set.of("trace", "debug", "info", "warn", "error");

  private final Object provider;
  private final Class<?> type;

  private HeftyProvider(Object provider, Class<?> type) {
    this.provider = provider;
    this.type = type;
  }

  /** Adapts a provider of Hefty's API; null if the object does not implement Hefty's InstrumentProvider. */
  static HeftyProvider adapt(Object provider) {
    for (Class<?> each : Scala.typesOf(provider.getClass())) {
      if (each.getName().startsWith(API) && each.getSimpleName().equals("InstrumentProvider")) {
        return new HeftyProvider(provider, each);
      }
    }
    return null;
  }

  @Override
  public void initialize(PluginContext context) throws Exception {
    Method initialize = findMethod(type, "initialize", 1);
    Scala.invoke(initialize, provider, contextFor(initialize.getParameterTypes()[0], context));
  }

  @Override
  public List<Instrument> instruments() throws Exception {
    List<Instrument> instruments = new ArrayList<>();
    for (Object each : Scala.toJavaList(Scala.call(provider, "instruments"))) instruments.add(new HeftyInstrument(each));
    return instruments;
  }

  @Override
  public void shutdown() throws Exception {
    Scala.call(provider, "shutdown");
  }

  private static Object contextFor(Class<?> contextType, PluginContext context) {
    return proxy(
        contextType,
        (name, args, method) ->
            switch (name) {
              case "pluginId" -> context.pluginId();
              case "dataDir" -> context.dataDir();
              case "config" -> Scala.toScalaMap(context.config());
              case "heftyVersion" -> context.heftyVersion();
              case "logger" -> loggerFor(method.getReturnType(), context);
              case "requestCognition", "requestEmbedding" -> Scala.failedFuture(HostContext.unsupported(name));
              default -> throw new UnsupportedOperationException(name + " is not available in this host");
            });
  }

  /** An SLF4J logger. Arguments replace the braces of the message, and an exception is appended. */
  private static Object loggerFor(Class<?> loggerType, PluginContext context) {
    return proxy(
        loggerType,
        (name, args, method) -> {
          if (name.equals("getName")) return context.pluginId();
          if (name.startsWith("is") && name.endsWith("Enabled")) return true;
          if (!LEVELS.contains(name)) throw new UnsupportedOperationException(name + " is not available in this logger");
          String line = messageOf(args);
          switch (name) {
            case "info" -> context.logger().info(line);
            case "warn" -> context.logger().warn(line);
            case "error" -> context.logger().error(line);
            default -> context.logger().debug(line);
          }
          return null;
        });
  }

  private static String messageOf(Object[] args) {
    List<Object> parts = new ArrayList<>();
    for (Object each : args) {
      if (each instanceof Object[] more) parts.addAll(List.of(more));
      else parts.add(each);
    }
    // A marker precedes the message.
    while (parts.size() > 1 && !(parts.get(0) instanceof String)) parts.remove(0);
    StringBuilder line = new StringBuilder(String.valueOf(parts.remove(0)));
    for (Object each : parts) {
      int at = line.indexOf("{}");
      if (at >= 0) line.replace(at, at + 2, String.valueOf(each));
      else line.append(' ').append(each);
    }
    return line.toString();
  }

  private interface Handler {
    Object handle(String name, Object[] args, Method method) throws Throwable;
  }

  private static Object proxy(Class<?> type, Handler handler) {
    if (!type.isInterface()) throw new IllegalStateException(type.getName() + " is not an interface, so this host cannot provide it");
    return Proxy.newProxyInstance(
        type.getClassLoader(),
        new Class<?>[] {type},
        (proxy, method, args) -> {
          if (method.getDeclaringClass() == Object.class) {
            return switch (method.getName()) {
              case "hashCode" -> System.identityHashCode(proxy);
              case "equals" -> proxy == args[0];
              default -> type.getName();
            };
          }
          if (method.isDefault()) return InvocationHandler.invokeDefault(proxy, method, args);
          return handler.handle(method.getName(), args, method);
        });
  }

  private static Method findMethod(Class<?> type, String name, int parameters) throws NoSuchMethodException {
    for (Method method : type.getMethods()) {
      if (method.getName().equals(name) && method.getParameterCount() == parameters) return method;
    }
    throw new NoSuchMethodException(type.getName() + " has no " + name + " with " + parameters + " parameters");
  }

  private static final class HeftyInstrument implements Instrument {
    private final Object instrument;
    private final Method invoke;
    private final String name;
    private final RiskLevel riskLevel;
    private final InstrumentMetadata metadata;

    HeftyInstrument(Object instrument) throws Exception {
      this.instrument = instrument;
      Class<?> declared = instrument.getClass();
      for (Class<?> each : Scala.typesOf(declared)) if (each.getName().equals(API + "Instrument")) declared = each;
      invoke = findMethod(declared, "invoke", 3);
      name = (String) Scala.call(instrument, "name");
      riskLevel = RiskLevel.valueOf(Scala.caseName(Scala.call(instrument, "riskLevel")));
      metadata = metadataOf(Scala.call(instrument, "metadata"));
      // The guide does not publish the fields of a rule, and ignoring a rule would allow what its author denies.
      if (!Scala.toJavaList(Scala.call(instrument, "securityRules")).isEmpty()) {
        throw new IllegalStateException(
            name
                + " has securityRules of Hefty's own type, which this host cannot read; write them as a policy of the"
                + " gateway and return an empty list");
      }
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public RiskLevel riskLevel() {
      return riskLevel;
    }

    @Override
    public InstrumentMetadata metadata() {
      return metadata;
    }

    @SuppressWarnings("unchecked")
    private static InstrumentMetadata metadataOf(Object metadata) throws Exception {
      InstrumentMetadata.Category category =
          InstrumentMetadata.Category.valueOf(Scala.caseName(Scala.call(metadata, "category")));
      String description = (String) Scala.call(metadata, "description");
      return new InstrumentMetadata((String) Scala.call(metadata, "name"), category, description)
          .accessMode(InstrumentMetadata.AccessMode.valueOf(Scala.caseName(Scala.call(metadata, "accessMode"))))
          .platform(InstrumentMetadata.Platform.valueOf(Scala.caseName(Scala.call(metadata, "platform"))))
          .inputSchema((Map<String, Object>) Scala.toJson(Scala.call(metadata, "inputSchema")))
          .outputSchema((Map<String, Object>) Scala.toJson(Scala.call(metadata, "outputSchema")))
          .sideEffects(toTexts(Scala.call(metadata, "sideEffects")))
          .keywords(toTexts(Scala.call(metadata, "keywords")))
          .defaultTimeoutMs(((Number) Scala.call(metadata, "defaultTimeoutMs")).longValue())
          .maxTimeoutMs(((Number) Scala.call(metadata, "maxTimeoutMs")).longValue());
    }

    @Override
    public InstrumentResult invoke(Map<String, Object> params, InvocationContext context) throws Exception {
      Object future = Scala.invoke(invoke, instrument, Scala.toCirce(params), contextOf(context), executionContext());
      Object result = Scala.await(future);
      String status = Scala.caseName(Scala.call(result, "status"));
      Object data = Scala.toJson(Scala.call(result, "data"));
      Object error = Scala.unwrap(Scala.call(result, "error"));
      if (error == null) return InstrumentResult.withStatus(status, data);
      String code = String.valueOf(Scala.call(error, "code"));
      String message = String.valueOf(Scala.call(error, "message"));
      return InstrumentResult.withStatus(status, data).failure(code, message, Scala.toJson(Scala.call(error, "details")));
    }

    @Override
    public InstrumentHealth healthCheck() throws Exception {
      Object health = Scala.await(Scala.call(instrument, "healthCheck", executionContext()));
      String message = Scala.firstField(health);
      return switch (Scala.caseName(health)) {
        case "Healthy" -> InstrumentHealth.healthy();
        case "Degraded" -> InstrumentHealth.degraded(message);
        default -> InstrumentHealth.unhealthy(message);
      };
    }

    /** Passes the fields in the order that Hefty's guide publishes. */
    private Object contextOf(InvocationContext call) throws Exception {
      Class<?> type = invoke.getParameterTypes()[1];
      Object[] fields = {
        call.activityId(),
        call.sessionId(),
        Scala.option(call.traceId()),
        Scala.option(call.timeoutMs()),
        Scala.option(call.dataDirPath())
      };
      for (var constructor : type.getConstructors()) {
        if (constructor.getParameterCount() == fields.length) return constructor.newInstance(fields);
      }
      throw new NoSuchMethodException(type.getName() + " does not have the five fields that Hefty's guide publishes");
    }

    /** Runs a continuation on the thread that schedules it. Each call already has its own thread. */
    private static Object executionContext() throws Exception {
      return Scala.executionContext(Runnable::run);
    }

    private static String[] toTexts(Object list) throws Exception {
      return Scala.toJavaList(list).stream().map(String::valueOf).toArray(String[]::new);
    }
  }
}
