/** The destinations that a registry can make the client connect to, and the credentials that are sent there. */
import { readFileSync } from "node:fs";
import { BackplaneError } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { catchRejection, descriptor, manifestWithBlobs, useRegistries } from "./use-registries.ts";

const { registry, other, connect, referenceTo, newFile } = useRegistries();

const credential = { username: "ada", password: "correct-horse" };
const credentials = async (host: string) => (host === registry.host ? credential : null);
const basic = `Basic ${Buffer.from("ada:correct-horse").toString("base64")}`;

const requireAuthorization = (header: string, accepted: string) => {
  registry.intercept = (request, response, url) => {
    if (url.pathname === "/token" || request.headers.authorization === accepted) return false;
    response.writeHead(401, { "www-authenticate": header }).end();
    return true;
  };
};

verifies("pkg.oci", "logs in with basic authentication", async () => {
  const digest = registry.putManifest(manifestWithBlobs(registry), "1.0.0");
  requireAuthorization('Basic realm="registry"', basic);
  expect((await connect({ credentials }).fetchManifest(referenceTo())).digest).toBe(digest);
});

verifies("pkg.oci", "gets a token for exactly this repository from the token server", async () => {
  const digest = registry.putManifest(manifestWithBlobs(registry), "1.0.0");
  registry.intercept = (request, response, url) => {
    if (url.pathname === "/token") {
      response.end(JSON.stringify({ token: "tok" }));
      return true;
    }
    if (request.headers.authorization === "Bearer tok") return false;
    const fields = `realm="${registry.origin}/token",service="reg",scope="repository:other/one:push"`;
    response.writeHead(401, { "www-authenticate": `Bearer ${fields}` }).end();
    return true;
  };
  expect((await connect({ credentials }).fetchManifest(referenceTo())).digest).toBe(digest);
  const token_request = registry.requests.find(({ path }) => path.startsWith("/token"))!;
  expect(token_request.authorization).toBe(basic);
  expect(new URLSearchParams(token_request.path.split("?")[1]).get("scope")).toBe(
    "repository:acme/devkit:pull",
  );
});

verifies(
  "pkg.oci",
  "does not send the credential of a registry to a token server on an unknown host",
  async () => {
    other.intercept = (_request, response) => {
      response.end(JSON.stringify({ token: "tok" }));
      return true;
    };
    requireAuthorization(`Bearer realm="${other.origin}/token"`, "never");
    const error = await catchRejection(connect({ credentials }).fetchManifest(referenceTo()));
    expect(error.code).toBe("registry.denied");
    expect(error.message).toContain(`token server ${other.host} is not known to belong to ${registry.host}`);
    expect(other.requests.map(({ authorization }) => authorization)).toEqual([undefined]);
  },
);

verifies("pkg.oci", "sends no credential along with a redirect to another host", async () => {
  const content = Buffer.from("layer");
  const digest = other.putBlob(content).digest;
  registry.intercept = (request, response, url) => {
    if (request.headers.authorization !== basic)
      response.writeHead(401, { "www-authenticate": "Basic" }).end();
    else response.writeHead(307, { location: `${other.origin}${url.pathname}` }).end();
    return true;
  };
  const file = newFile();
  await connect({ credentials }).fetchBlob(referenceTo(), descriptor(digest, content.length), file);
  expect(readFileSync(file, "utf8")).toBe("layer");
  expect(other.requests.map(({ authorization }) => authorization)).toEqual([undefined]);
});

test("does not answer an authentication challenge from the target of a redirect", async () => {
  other.intercept = (_request, response) => {
    response.writeHead(401, { "www-authenticate": `Bearer realm="${other.origin}/token"` }).end();
    return true;
  };
  registry.intercept = (_request, response, url) => {
    response.writeHead(307, { location: `${other.origin}${url.pathname}` }).end();
    return true;
  };
  const error = await catchRejection(connect({ credentials }).fetchManifest(referenceTo()));
  expect(error.code).toBe("registry.denied");
  expect(error.message).toContain(`sent the request for acme/devkit on to ${other.host}`);
  expect(error.message).not.toContain("stored");
  expect(error.fix).toContain("operator");
  expect(other.requests).toHaveLength(1);
});

const LOGINS: [what: string, stored: boolean, refuse: Refusal, message: string, fix: string][] = [
  ["an anonymous token", false, "bearer", "no credential is stored", "docker login"],
  ["an anonymous request", false, "basic", "no credential is stored", "docker login"],
  ["a token for a credential", true, "bearer", "the stored credential", "permissions of the credential"],
  ["a credential", true, "basic", "the stored credential", "permissions of the credential"],
  ["a request for an anonymous token", false, "token", "no credential is stored", "docker login"],
  ["a request for a token", true, "token", "the stored credential", "permissions of the credential"],
  ["a request without a challenge", true, "forbidden", "does not ask for a login", "operator"],
];

type Refusal = "bearer" | "basic" | "token" | "forbidden";

test.each(LOGINS)("explains a refusal of %s", async (_what, stored, refuse, message, fix) => {
  registry.intercept = (_request, response, url) => {
    if (url.pathname === "/token" && refuse !== "token") response.end(JSON.stringify({ token: "tok" }));
    else if (url.pathname === "/token" || refuse === "forbidden") response.writeHead(403).end();
    else {
      const challenge = refuse === "basic" ? "Basic" : `Bearer realm="${registry.origin}/token"`;
      response.writeHead(401, { "www-authenticate": challenge }).end();
    }
    return true;
  };
  const client = connect(stored ? { credentials } : {});
  const error = await catchRejection(client.fetchManifest(referenceTo()));
  expect(error.code).toBe("registry.denied");
  expect(error.message).toContain(message);
  expect(error.fix).toContain(fix);
});

test("explains a refused request by the credential that was sent with it, not by that of another repository", async () => {
  registry.putManifest(manifestWithBlobs(registry), "1.0.0");
  const client = connect({ credentials });
  requireAuthorization("Basic", basic);
  await client.fetchManifest(referenceTo());
  registry.intercept = (_request, response) => {
    response.writeHead(403).end();
    return true;
  };
  expect((await catchRejection(client.fetchManifest(referenceTo("acme/other:1.0.0")))).message).toContain(
    "does not ask for a login",
  );
});

verifies(
  "sec.provider-egress",
  "checks the address of a registry, of its redirects and of its token server",
  async () => {
    const checked: string[] = [];
    const addresses = async ({ host, port }: { host: string; port: number }) => {
      checked.push(`${host}:${port}`);
      if (`${host}:${port}` !== registry.host) throw new BackplaneError("policy.denied", "private");
      return ["127.0.0.1"];
    };
    registry.intercept = (_request, response, url) => {
      response.writeHead(307, { location: `${other.origin}${url.pathname}` }).end();
      return true;
    };
    expect((await catchRejection(connect({ addresses }).fetchManifest(referenceTo()))).code).toBe(
      "policy.denied",
    );
    requireAuthorization(`Bearer realm="${other.origin}/token"`, "never");
    expect((await catchRejection(connect({ addresses }).fetchManifest(referenceTo()))).code).toBe(
      "policy.denied",
    );
    expect(checked).toEqual([registry.host, other.host, registry.host, other.host]);
    expect(other.requests).toHaveLength(0);
  },
);

const LOCATIONS: [what: string, location: string, problem: string][] = [
  ["a host without TLS", "http://registry.example.com/x", "not an https URL"],
  ["a file", "file:///etc/passwd", "not an https URL"],
  ["a URL with credentials", "https://a:b@registry.example.com/", "credentials"],
  ["an invalid URL", "http://", "invalid URL"],
  ["itself", "", "too often"],
];

test.each(LOCATIONS)("refuses a redirect to %s", async (_what, location, problem) => {
  registry.intercept = (_request, response, url) => {
    response.writeHead(302, { location: location || url.pathname }).end();
    return true;
  };
  const error = await catchRejection(connect().fetchManifest(referenceTo()));
  expect(error.code).toBe("registry.invalid");
  expect(error.message).toContain(problem);
});

const CHALLENGES: [what: string, header: string | null][] = [
  ["has no scheme", null],
  ["has an unknown scheme", 'Digest realm="x"'],
  ["specifies a token server without TLS", 'Bearer realm="http://registry.example.com/token"'],
  ["specifies a token server that is not a URL", 'Bearer realm="token"'],
];

test.each(CHALLENGES)("refuses a challenge that %s", async (_what, header) => {
  registry.intercept = (_request, response) => {
    response.writeHead(401, header === null ? {} : { "www-authenticate": header }).end();
    return true;
  };
  expect((await catchRejection(connect({ credentials }).fetchManifest(referenceTo()))).code).toBe(
    "registry.invalid",
  );
});

const TOKENS: [what: string, body: string][] = [
  ["is not JSON", "tok"],
  ["has no token", "{}"],
  ["has a token with a line break", JSON.stringify({ token: "a\r\nx: y" })],
  ["is larger than the limit", JSON.stringify({ token: "t", pad: "x".repeat(100_000) })],
];

test.each(TOKENS)("refuses a token response that %s", async (_what, body) => {
  registry.intercept = (_request, response, url) => {
    if (url.pathname === "/token") response.end(body);
    else response.writeHead(401, { "www-authenticate": `Bearer realm="${registry.origin}/token"` }).end();
    return true;
  };
  expect((await catchRejection(connect().fetchManifest(referenceTo()))).code).toBe("registry.invalid");
});
