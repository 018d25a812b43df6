/** A real MCP server in Python, with the standard library alone, as the files of a wheel. */
import { type WheelContent, wheel } from "../../../packages/supply/test/support/python-index.ts";

/** The tool `look` reports what the server sees; `reach` connects to an address. The word comes from a dependency. */
const SERVER = `
import json, os, socket, sys, urllib.request
import acme_words

def look(arguments):
    return {
        "word": acme_words.WORD,
        "arguments": sys.argv[1:],
        "token": os.environ.get("API_KEY"),
        "uid": os.getuid(),
        "home": os.path.exists("/root") or os.path.exists("/home"),
        "path": [each for each in sys.path if each.startswith("/plugin") or "dist-packages" in each],
        "writable": os.access(os.path.dirname(__file__), os.W_OK),
    }

def reach(arguments):
    try:
        socket.create_connection((arguments["host"], arguments["port"]), timeout=5).close()
        return {"reached": True}
    except OSError as error:
        return {"reached": False, "reason": type(error).__name__}

TOOLS = {"look": look, "reach": reach}

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "acme-py", "version": "1.0.0"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if method == "tools/call":
        text = json.dumps(TOOLS[params["name"]](params.get("arguments") or {}))
        return {"content": [{"type": "text", "text": text}]}
    return {}

def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], message.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)

if __name__ == "__main__":
    main()
`;

export const PYTHON_SERVER: WheelContent = {
  name: "acme-mcp-py",
  version: "1.4",
  requires: ["acme-words"],
  scripts: ["acme-mcp-py = acme_mcp_py:main", "acme-other = acme_mcp_py:other"],
  files: {
    "acme_mcp_py/__init__.py": SERVER,
    "acme_mcp_py/__main__.py": "from acme_mcp_py import main\nmain()\n",
  },
};

/** The wheels of the server and its dependency, by project. */
export function pythonServerWheels(): { project: string; file: string; bytes: Buffer }[] {
  const words: WheelContent = {
    name: "acme-words",
    version: "2",
    files: { "acme_words.py": 'WORD = "dependency"\n' },
  };
  return [PYTHON_SERVER, words].map((content) => ({ project: content.name, ...wheel(content) }));
}
