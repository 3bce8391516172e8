// The OpenID Connect provider of panva (`oidc-provider`) on loopback, with the device flow. It knows nothing of dragoman.
// Run as: node oidc_provider.mjs SECONDS, the life of its access tokens. It prints its issuer as the first line.
// Whoever opens the page of a code is the user that the cookie `user` names, and consents; groups are those of the table.
import { createServer } from "node:http";
import { generateKeyPairSync } from "node:crypto";
import Provider from "oidc-provider";

const AUDIENCE = "urn:dragoman:agents";
const GROUPS = { ada: ["ops"], bob: ["dev"], mallory: ["out"] };
const life = Number(process.argv[2] ?? 600);
const server = createServer();
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;

const keys = [
  ["rsa", { modulusLength: 2048 }, "RS256"],
  ["ec", { namedCurve: "P-256" }, "ES256"],
].map(([kind, options, alg], number) => {
  const made = generateKeyPairSync(kind, options).privateKey.export({ format: "jwk" });
  return { ...made, kid: `key-${number}`, use: "sig", alg };
});
const client = (client_id, alg) => ({
  client_id,
  token_endpoint_auth_method: "none",
  grant_types: ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
  response_types: [],
  redirect_uris: [],
  application_type: "native",
  id_token_signed_response_alg: alg,
});
const page = (ctx, form = "") => {
  ctx.type = "html";
  ctx.body = `<!DOCTYPE html><title>device</title>${form}`;
};
const resources = {
  enabled: true,
  defaultResource: () => AUDIENCE,
  useGrantedResource: () => true,
  getResourceServerInfo: (ctx, resource, { clientId }) => ({
    scope: "openid profile email offline_access",
    audience: resource,
    accessTokenFormat: "jwt",
    accessTokenTTL: life,
    jwt: { sign: { alg: clientId.endsWith("ec") ? "ES256" : "RS256" } },
  }),
};
const provider = new Provider(issuer, {
  clients: [client("dragoman-cli", "RS256"), client("dragoman-cli-ec", "ES256")],
  jwks: { keys },
  cookies: { keys: ["for tests"] },
  ttl: { AccessToken: life, DeviceCode: 600, IdToken: life, Grant: 3600, Session: 3600, Interaction: 600, RefreshToken: 3600 },
  rotateRefreshToken: true,
  issueRefreshToken: async (ctx, { grantTypes }, code) => code.scopes.has("offline_access"),
  extraTokenClaims: (ctx, token) => ({ groups: GROUPS[token.accountId] ?? [] }),
  findAccount: (ctx, sub) => ({ accountId: sub, claims: async () => ({ sub, groups: GROUPS[sub] ?? [] }) }),
  interactions: { url: (ctx, { uid }) => `/interaction/${uid}` },
  features: {
    devInteractions: { enabled: false },
    deviceFlow: {
      enabled: true,
      mask: "****-****",
      userCodeInputSource: (ctx, form) => page(ctx, form),
      userCodeConfirmSource: (ctx, form) => page(ctx, form),
      successSource: (ctx) => page(ctx, "the device is logged in"),
    },
    revocation: { enabled: true },
    resourceIndicators: resources,
  },
});

async function answer(request, response) {
  const details = await provider.interactionDetails(request, response);
  const user = /(?:^|; )user=([a-z]+)/.exec(request.headers.cookie ?? "")?.[1] ?? "ada";
  if (details.prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: user } });
  }
  const grant = new provider.Grant({ accountId: details.session.accountId, clientId: details.params.client_id });
  grant.addOIDCScope("openid profile email offline_access");
  grant.addResourceScope(AUDIENCE, "openid profile email offline_access");
  const grantId = await grant.save();
  return provider.interactionFinished(request, response, { consent: { grantId } }, { mergeWithLastSubmission: true });
}

const serve = provider.callback();
server.on("request", (request, response) => {
  if (!request.url.startsWith("/interaction/")) return serve(request, response);
  answer(request, response).catch((error) => {
    response.statusCode = 500;
    response.end(String(error));
  });
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0)); // with the test that has started it
console.log(issuer);
