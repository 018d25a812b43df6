export { keepDefinitions } from "./definitions/keep-definitions.ts";
export { instrumentAdminTools } from "./instruments/admin-tools.ts";
export { createInstruments, dependencyGate } from "./instruments/instruments.ts";
export { createAskFirst } from "./servers/ask-first.ts";
export { requestTool } from "./servers/request-tool.ts";
export { createServers } from "./servers/servers.ts";
export { createGiveBack } from "./sign-ins/revoke-tokens.ts";
export { createSignIns } from "./sign-ins/sign-ins.ts";
export { createTokens } from "./sign-ins/tokens.ts";
