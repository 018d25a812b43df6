/** HTTP: a request names exactly one host, which must be the gateway's, and browsers never guess the type of a response. */
import type { Mutant } from "./mutant.ts";

const API = "packages/api/src";
const HTTP_EDGE_TESTS = ["packages/api/test/http/http-edge.test.ts"];

export const HTTP_DEFENSES: Mutant[] = [
  {
    name: "http: a request has one Host header",
    file: `${API}/auth/hosts.ts`,
    from: "return count > 1;",
    to: "return false;",
    tests: HTTP_EDGE_TESTS,
  },
  {
    name: "http: an absolute-form target is checked",
    file: `${API}/auth/hosts.ts`,
    from: "if (!isOriginForm(url) && ",
    to: "if (false && ",
    tests: HTTP_EDGE_TESTS,
  },
  {
    name: "http: Host is checked before an upgrade",
    file: `${API}/ws/upgrade.ts`,
    from: "    checkGate(gate, request);\n",
    to: "",
    tests: HTTP_EDGE_TESTS,
  },
  {
    name: "http: our own check refuses a missing Host",
    file: `${API}/server/create-api.ts`,
    from: "requireHostHeader: false",
    to: "requireHostHeader: true",
    tests: HTTP_EDGE_TESTS,
  },
  {
    name: "http: responses that Node writes have nosniff",
    file: `${API}/http/nosniff-response.ts`,
    from: '    this.setHeader("x-content-type-options", "nosniff");\n',
    to: "",
    tests: HTTP_EDGE_TESTS,
  },
  {
    name: "http: responses written to a socket have nosniff",
    file: `${API}/http/socket-response.ts`,
    from: "    NOSNIFF_LINE,\n",
    to: "",
    tests: HTTP_EDGE_TESTS,
  },
  {
    name: "http: the response to a WebSocket handshake has nosniff",
    file: `${API}/ws/upgrade.ts`,
    from: '  websocket_server.on("headers", (lines) => lines.push(NOSNIFF_LINE));\n',
    to: "",
    tests: HTTP_EDGE_TESTS,
  },
  {
    name: "http: an adapter cannot remove nosniff",
    file: `${API}/server/adapter-routes.ts`,
    from: '.header("x-content-type-options", "nosniff")',
    to: "",
    tests: ["packages/api/test/server/adapter-routes.test.ts"],
  },
  {
    name: "http: a query parameter that a route does not have is refused",
    file: "packages/api/src/server/register-routes.ts",
    from: 'return path.startsWith("/v1/") && error_schema === undefined;',
    to: 'return path === "" && error_schema === undefined;',
    tests: ["packages/api/test/openapi/build-openapi.test.ts"],
    only: "refuses query parameters",
  },
  {
    name: "http: an idempotency key covers the query of its request",
    file: `${API}/requests/idempotency.ts`,
    from: "parameters.length === 0",
    to: "parameters.length >= 0",
    tests: ["packages/api/test/requests/idempotency.test.ts"],
  },
];
