package backplane.instruments;

import java.util.Map;

/** A protocol error with its JSON-RPC code. */
final class ProtocolException extends RuntimeException {
  static final int PARSE_ERROR = -32700;
  static final int INVALID_REQUEST = -32600;
  static final int METHOD_NOT_FOUND = -32601;
  static final int INVALID_PARAMS = -32602;
  /** The author's code failed in a method whose result cannot carry the error. */
  static final int PROVIDER_FAILED = -32001;
  /** A request arrived before `initialize` or after `shutdown`. */
  static final int NOT_INITIALIZED = -32002;

  private static final long serialVersionUID = 1;

  final int code;

  ProtocolException(int code, String message) {
    super(message);
    this.code = code;
  }

  static String text(Map<String, Object> params, String name) {
    if (params.get(name) instanceof String value) return value;
    throw new ProtocolException(INVALID_PARAMS, name + " must be a string");
  }
}
