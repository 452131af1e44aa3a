// Says whether the server answers, in words and as a dot; a page that cannot reach it must not look current.
const pulse = document.getElementById("pulse");
const words = document.getElementById("connection");

class SignedOut extends Error {}
class Refused extends Error {}

function say(text, off) {
  if (words.textContent !== text) words.textContent = text; // a screen reader reads every change aloud
  pulse.classList.toggle("off", off);
  document.body.classList.toggle("offline", off);
}

// The JSON at an address; throws if the server is gone, has a problem, or wants a token.
export async function ask(address) {
  const answer = await fetch(address, { headers: { accept: "application/json" } });
  if (answer.redirected) throw new SignedOut("signed out");
  if (!answer.ok) throw new Refused(String(answer.status));
  return answer.json();
}

// Runs `refresh` again and again while somebody looks, and says how it went.
export function keepAsking(refresh, pauseMs) {
  async function turn() {
    if (!document.hidden) {
      try {
        await refresh();
        say("live", false);
      } catch (error) {
        if (error instanceof SignedOut) say("signed out: reload this page to sign in", true);
        else if (error instanceof Refused) say(`the server has a problem (status ${error.message}), trying again`, true);
        else say("no connection to the server, trying again", true);
      }
    }
    setTimeout(turn, pauseMs);
  }
  turn();
}
