package backplane.instruments;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Parses and writes JSON. Values are Map, List, String, Number, Boolean and null. */
final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  static Object parse(String text) {
    Json json = new Json(text);
    Object value = json.parseValue(0);
    json.skipSpace();
    if (json.at != text.length()) throw json.syntaxError();
    return value;
  }

  static String write(Object value) {
    StringBuilder out = new StringBuilder();
    write(value, out);
    return out.toString();
  }

  private Object parseValue(int depth) {
    if (depth > 64) throw syntaxError();
    skipSpace();
    if (at == text.length()) throw syntaxError();
    char c = text.charAt(at);
    if (c == '{') return parseObject(depth);
    if (c == '[') return parseList(depth);
    if (c == '"') return parseString();
    if (accept("true")) return true;
    if (accept("false")) return false;
    if (accept("null")) return null;
    return parseNumber();
  }

  private Map<String, Object> parseObject(int depth) {
    Map<String, Object> map = new LinkedHashMap<>();
    at++;
    skipSpace();
    if (accept("}")) return map;
    do {
      skipSpace();
      String key = parseString();
      skipSpace();
      if (!accept(":")) throw syntaxError();
      map.put(key, parseValue(depth + 1));
      skipSpace();
    } while (accept(","));
    if (!accept("}")) throw syntaxError();
    return map;
  }

  private List<Object> parseList(int depth) {
    List<Object> list = new ArrayList<>();
    at++;
    skipSpace();
    if (accept("]")) return list;
    do {
      list.add(parseValue(depth + 1));
      skipSpace();
    } while (accept(","));
    if (!accept("]")) throw syntaxError();
    return list;
  }

  private String parseString() {
    if (!accept("\"")) throw syntaxError();
    StringBuilder out = new StringBuilder();
    while (at < text.length()) {
      char c = text.charAt(at++);
      if (c == '"') return out.toString();
      if (c != '\\') {
        out.append(c);
        continue;
      }
      if (at == text.length()) throw syntaxError();
      char escaped = text.charAt(at++);
      switch (escaped) {
        case 'n' -> out.append('\n');
        case 't' -> out.append('\t');
        case 'r' -> out.append('\r');
        case 'b' -> out.append('\b');
        case 'f' -> out.append('\f');
        case 'u' -> {
          if (at + 4 > text.length()) throw syntaxError();
          out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
          at += 4;
        }
        default -> out.append(escaped);
      }
    }
    throw syntaxError();
  }

  private Number parseNumber() {
    int from = at;
    while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) at++;
    try {
      String digits = text.substring(from, at);
      if (digits.matches("-?\\d{1,18}")) return Long.parseLong(digits);
      return Double.parseDouble(digits);
    } catch (NumberFormatException e) {
      throw syntaxError();
    }
  }

  private boolean accept(String word) {
    if (!text.startsWith(word, at)) return false;
    at += word.length();
    return true;
  }

  private void skipSpace() {
    while (at < text.length() && Character.isWhitespace(text.charAt(at))) at++;
  }

  private IllegalArgumentException syntaxError() {
    return new IllegalArgumentException("not JSON at character " + at);
  }

  private static void write(Object value, StringBuilder out) {
    if (value instanceof Map<?, ?> map) {
      String separator = "{";
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        out.append(separator);
        quote(String.valueOf(entry.getKey()), out);
        out.append(':');
        write(entry.getValue(), out);
        separator = ",";
      }
      out.append(map.isEmpty() ? "{}" : "}");
    } else if (value instanceof Iterable<?> list) {
      out.append('[');
      String separator = "";
      for (Object item : list) {
        out.append(separator);
        write(item, out);
        separator = ",";
      }
      out.append(']');
    } else if (value instanceof Object[] array) {
      write(Arrays.asList(array), out);
    } else if (value instanceof Number number) {
      // JSON cannot represent NaN or infinity.
      boolean finite = Double.isFinite(number.doubleValue());
      out.append(finite ? number.toString() : "null");
    } else if (value == null || value instanceof Boolean) {
      out.append(value);
    } else {
      quote(value.toString(), out);
    }
  }

  private static void quote(String text, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c < 0x20) out.append(String.format("\\u%04x", (int) c));
      else out.append(c);
    }
    out.append('"');
  }
}
