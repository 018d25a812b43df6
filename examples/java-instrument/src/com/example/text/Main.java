package com.example.text;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * An External instrument plugin without any library: one JSON-RPC 2.0 message per line, requests on stdin,
 * responses on stdout. All other output goes to stderr, which the host keeps as the log.
 */
public final class Main {
  private static final int PARSE_ERROR = -32700;
  private static final int INVALID_REQUEST = -32600;
  private static final int METHOD_NOT_FOUND = -32601;
  private static final int INVALID_PARAMS = -32602;

  private static Path dataDir;
  private static String language = "";
  private static boolean running = true;

  public static void main(String[] args) throws IOException {
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); running && line != null; line = running ? in.readLine() : null) {
      if (line.isBlank()) continue;
      Object response = receive(line);
      if (response != null) out.println(Json.write(response));
    }
  }

  /** The response to one line: an object, a list for a batch, or null if no response is due. */
  private static Object receive(String line) {
    Object message;
    try {
      message = Json.parse(line);
    } catch (IllegalArgumentException e) {
      return error(null, PARSE_ERROR, "Parse error: " + e.getMessage());
    }
    if (!(message instanceof List<?> batch)) return respond(message);
    if (batch.isEmpty()) return error(null, INVALID_REQUEST, "The batch is empty");
    List<Object> responses = new ArrayList<>();
    for (Object one : batch) {
      Object response = respond(one);
      if (response != null) responses.add(response);
    }
    return responses.isEmpty() ? null : responses;
  }

  @SuppressWarnings("unchecked")
  private static Object respond(Object message) {
    if (!(message instanceof Map<?, ?> raw)) return error(null, INVALID_REQUEST, "Invalid Request");
    Map<String, Object> request = (Map<String, Object>) raw;
    // The message is a response to a request that this plugin never sent.
    if (!request.containsKey("method") && (request.containsKey("result") || request.containsKey("error"))) return null;
    Object id = request.get("id");
    if (!"2.0".equals(request.get("jsonrpc")) || !(request.get("method") instanceof String method)) {
      return error(id, INVALID_REQUEST, "Invalid Request");
    }
    Object response;
    try {
      Object params = request.getOrDefault("params", Map.of());
      if (!(params instanceof Map<?, ?>)) throw new ProtocolException(INVALID_PARAMS, "The parameters must be an object");
      response = map("jsonrpc", "2.0", "id", id, "result", call(method, (Map<String, Object>) params));
    } catch (ProtocolException e) {
      response = error(id, e.code, e.getMessage());
    } catch (IOException | RuntimeException e) {
      response = error(id, -32001, String.valueOf(e.getMessage()));
    }
    // A notification has no id and gets no response, even when it fails.
    return request.containsKey("id") ? response : null;
  }

  @SuppressWarnings("unchecked")
  private static Object call(String method, Map<String, Object> params) throws IOException {
    switch (method) {
      case "initialize" -> {
        dataDir = Path.of(text(params, "dataDir"));
        Map<String, Object> config = (Map<String, Object>) params.getOrDefault("config", Map.of());
        language = String.valueOf(config.getOrDefault("language", "en"));
        System.err.println("initialized " + params.get("pluginId") + " for Hefty " + params.get("heftyVersion"));
        return map("success", true);
      }
      case "listInstruments" -> {
        return map("instruments", List.of(wordCount(), noteAppend()));
      }
      case "invoke" -> {
        Map<String, Object> arguments = (Map<String, Object>) params.getOrDefault("params", Map.of());
        return invoke(text(params, "instrument"), arguments);
      }
      case "healthCheck" -> {
        boolean writable = dataDir != null && Files.isWritable(dataDir);
        return map("status", writable ? "Healthy" : "Unhealthy", "message", "data folder " + dataDir);
      }
      case "shutdown" -> {
        running = false;
        return map("success", true);
      }
      default -> throw new ProtocolException(METHOD_NOT_FOUND, "There is no method " + method);
    }
  }

  private static Object invoke(String instrument, Map<String, Object> params) throws IOException {
    if (!(params.get("text") instanceof String text)) {
      return failed("MISSING_TEXT", "The parameter text is missing");
    }
    switch (instrument) {
      case "word_count" -> {
        Map<String, Object> counts = new TreeMap<>();
        int words = 0;
        for (String word : text.toLowerCase().split("\\W+")) {
          if (word.isEmpty()) continue;
          words++;
          counts.merge(word, 1, (a, b) -> (Integer) a + (Integer) b);
        }
        return map("status", "Success", "data", map("language", language, "words", words, "counts", counts));
      }
      case "note_append" -> {
        Path notes = dataDir.resolve("notes.txt");
        Files.writeString(notes, text + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        int lines = Files.readAllLines(notes).size();
        return map("status", "Success", "data", map("stdout", lines + " notes", "stderr", ""));
      }
      default -> throw new ProtocolException(INVALID_PARAMS, "There is no instrument " + instrument);
    }
  }

  private static Map<String, Object> wordCount() {
    return instrument("word_count", "ReadOnly", "Counts the words of a text.", List.of(), "Shared");
  }

  private static Map<String, Object> noteAppend() {
    return instrument("note_append", "LocalWrite", "Appends a line to the plugin's notes.", List.of("writes files"), "Exclusive");
  }

  private static Map<String, Object> instrument(
      String name, String risk, String description, List<String> sideEffects, String accessMode) {
    Map<String, Object> schema =
        map(
            "type", "object",
            "properties", map("text", map("type", "string")),
            "required", List.of("text"));
    Map<String, Object> metadata =
        map(
            "name", name,
            "category", "Application",
            "description", description,
            "accessMode", accessMode,
            "platform", "All",
            "inputSchema", schema,
            "outputSchema", Map.of(),
            "sideEffects", sideEffects,
            "defaultTimeoutMs", 5000,
            "maxTimeoutMs", 10000,
            "keywords", List.of("text"));
    return map("name", name, "origin", "base", "riskLevel", risk, "metadata", metadata, "securityRules", List.of());
  }

  private static Map<String, Object> failed(String code, String message) {
    return map(
        "status", "Error",
        "data", map("stdout", "", "stderr", message),
        "error", map("code", code, "message", message));
  }

  private static String text(Map<String, Object> params, String name) {
    if (params.get(name) instanceof String value) return value;
    throw new ProtocolException(INVALID_PARAMS, name + " must be a string");
  }

  private static Map<String, Object> error(Object id, int code, String message) {
    return map("jsonrpc", "2.0", "id", id, "error", map("code", code, "message", message));
  }

  private static Map<String, Object> map(Object... pairs) {
    Map<String, Object> map = new LinkedHashMap<>();
    for (int at = 0; at < pairs.length; at += 2) map.put((String) pairs[at], pairs[at + 1]);
    return map;
  }

  private static final class ProtocolException extends RuntimeException {
    private final int code;

    ProtocolException(int code, String message) {
      super(message);
      this.code = code;
    }
  }
}
