/**
 * Only `npm run bench` installs the peers of the benchmarks. These declarations let `npm run check` compile the
 * benchmarks without them.
 */
declare module "@anthropic-ai/sandbox-runtime";
declare module "@modelcontextprotocol/sdk/client/index.js";
declare module "@modelcontextprotocol/sdk/client/stdio.js";
declare module "ai";
declare module "ai/test";
declare module "bullmq";
declare module "graphile-worker";
declare module "ioredis";
declare module "vscode-jsonrpc/node";
