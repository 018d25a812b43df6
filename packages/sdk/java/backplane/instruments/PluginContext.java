package backplane.instruments;

import java.nio.file.Path;
import java.util.Map;

/** What the host hands a provider when it starts. */
public interface PluginContext {
  String pluginId();

  /** Exists, and survives restarts. */
  Path dataDir();

  /** The binding's config, flat: {"a": {"b": 1}} is {"a.b": "1"}. */
  Map<String, String> config();

  String heftyVersion();

  Logger logger();

  /** A jar runs as External, where the host's models cannot be reached: it throws UnsupportedOperationException. */
  String requestCognition(String prompt, int maxTokens);

  /** The same. */
  float[] requestEmbedding(String text);

  /** Lines of the plugin's log, which the gateway keeps. */
  interface Logger {
    void debug(String message);

    void info(String message);

    void warn(String message);

    void error(String message);
  }
}
