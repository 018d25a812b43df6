package backplane.instruments;

import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The context of a provider that runs in its own process. Log messages are written to stderr, which the gateway
 * records.
 */
final class HostContext implements PluginContext {
  private final String pluginId;
  private final Path dataDir;
  private final Map<String, String> config = new LinkedHashMap<>();
  private final String heftyVersion;

  HostContext(Map<String, Object> params) {
    pluginId = ProtocolException.text(params, "pluginId");
    dataDir = Path.of(ProtocolException.text(params, "dataDir"));
    heftyVersion = ProtocolException.text(params, "heftyVersion");
    if (!(params.get("config") instanceof Map<?, ?> settings)) {
      throw new ProtocolException(ProtocolException.INVALID_PARAMS, "config must be an object");
    }
    settings.forEach((name, value) -> config.put(String.valueOf(name), String.valueOf(value)));
  }

  @Override
  public String pluginId() {
    return pluginId;
  }

  @Override
  public Path dataDir() {
    return dataDir;
  }

  @Override
  public Map<String, String> config() {
    return Map.copyOf(config);
  }

  @Override
  public String heftyVersion() {
    return heftyVersion;
  }

  @Override
  public Logger logger() {
    return new Logger() {
      @Override
      public void debug(String message) {
        log("debug", message);
      }

      @Override
      public void info(String message) {
        log("info", message);
      }

      @Override
      public void warn(String message) {
        log("warn", message);
      }

      @Override
      public void error(String message) {
        log("error", message);
      }
    };
  }

  @Override
  public String requestCognition(String prompt, int maxTokens) {
    throw unsupported("requestCognition");
  }

  @Override
  public float[] requestEmbedding(String text) {
    throw unsupported("requestEmbedding");
  }

  private void log(String level, String message) {
    System.err.println(level + " [" + pluginId + "] " + message);
  }

  static UnsupportedOperationException unsupported(String method) {
    return new UnsupportedOperationException(
        method + " is not available in External mode. A jar always runs in External mode, without access to the host's models.");
  }
}
