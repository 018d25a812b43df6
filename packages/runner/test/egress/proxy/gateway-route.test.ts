import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createTestEgress, TestClient } from "../../support/egress.ts";
import { createEmptyFolder } from "../../support/sandbox.ts";

/** Creates a self-signed certificate for a name that does not match the gateway's address. */
function createCertificate() {
  const folder = createEmptyFolder();
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const request =
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=gw.acme.test";
  execFileSync("openssl", [...request.split(" "), "-keyout", key, "-out", cert], { stdio: "ignore" });
  return { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
}

async function startSecureGateway(pair: { key: string; cert: string }) {
  const requests: string[] = [];
  const server = createServer(pair, (request, response) => {
    requests.push(`${request.method} ${request.url}`);
    response.end("ok");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { requests, base_url: `https://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function requestGateway(base_url: string, certificate?: string): Promise<string> {
  const gateway = { base_url, ...(certificate === undefined ? {} : { certificate }) };
  const egress = await createTestEgress({ network: "none", scopes: ["sessions:read"], gateway });
  expect(egress.session.gateway_url).toBe("http://127.0.0.1:7420");
  const client = new TestClient(await egress.openListener("gateway"));
  client.send(
    "GET /v1/x HTTP/1.1\r\nHost: 127.0.0.1:7420\r\nAuthorization: Bearer vai_dlg_x\r\nConnection: close\r\n\r\n",
  );
  return (await client.readToEnd()).split("\r\n", 1)[0]!;
}

test("accepts a TLS gateway only with its own certificate", async () => {
  const own_pair = createCertificate();
  const { requests, base_url } = await startSecureGateway(own_pair);
  expect(await requestGateway(base_url, own_pair.cert)).toBe("HTTP/1.1 200 OK");
  expect(requests).toEqual(["GET /v1/x"]);
  // Another server at this address, or one with an untrusted certificate, does not get the token.
  expect(await requestGateway(base_url, createCertificate().cert)).toMatch(/502/);
  expect(await requestGateway(base_url)).toMatch(/502/);
  expect(requests).toEqual(["GET /v1/x"]);
});
