// Session: how the node is asked, the token that it may want, and what that may. A token stays in this tab.
const TOKEN_KEY = "gd2fs-token";
const ANSWER_MS = 8000;
const OPERATORS = ["admin", "cluster"]; // rights that drain nodes and change settings

let caller = null; // as the node calls whoever asks; null: not known yet

class Refused extends Error {
  constructor(status, message, hint) {
    super(message);
    this.status = status;
    this.hint = hint;
  }
}

function token() {
  return sessionStorage.getItem(TOKEN_KEY);
}

function use(text) {
  if (text) sessionStorage.setItem(TOKEN_KEY, text);
  else sessionStorage.removeItem(TOKEN_KEY);
  caller = null;
}

async function askWho() {
  caller ??= await ask("v1/caller");
}

function mayOperate() {
  return OPERATORS.includes(caller?.right);
}

// As whom; nothing where the node has no tokens.
function callerText() {
  if (!caller?.token) return "";
  return mayOperate() ? `as ${caller.token}` : `as ${caller.token}, to look only`;
}

async function ask(path, body) {
  const headers = token() ? { authorization: `Bearer ${token()}` } : {};
  const options = { headers, cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) };
  if (body) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["content-type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Refused(0, "this node does not answer", "");
  }
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, said.error ?? defaultFault(answer.status), said.hint ?? "");
  return said;
}

function defaultFault(status) {
  if (status === 401) return "a token is needed";
  if (status === 403) return "this token may not do that";
  return `the node answered ${status}`;
}

function words(error) {
  return error.hint ? `${error.message}. ${error.hint}` : error.message;
}
