package backplane.instruments;

import java.nio.file.Path;
import java.util.Map;

/** The context that the host passes to a provider at start. */
public interface PluginContext {
  String pluginId();

  /** The folder exists and survives restarts. */
  Path dataDir();

  /** The binding's config, flattened: {"a": {"b": 1}} becomes {"a.b": "1"}. */
  Map<String, String> config();

  String heftyVersion();

  Logger logger();

  /** Throws UnsupportedOperationException: a jar runs in External mode, without access to the host's models. */
  String requestCognition(String prompt, int maxTokens);

  /** Throws UnsupportedOperationException for the same reason. */
  float[] requestEmbedding(String text);

  /** Log messages are written to stderr, which the gateway records. */
  interface Logger {
    void debug(String message);

    void info(String message);

    void warn(String message);

    void error(String message);
  }
}
