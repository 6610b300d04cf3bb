#!/usr/bin/env bash
# Fetch a CPython that this machine lacks: `fetch_python.sh 3.14 FOLDER` leaves FOLDER/usr/bin/python3.14.
# It is Debian's newest, from the mirror that apt is set up with, and needs a newer C library than the machine may have. So
# all that it needs is unpacked beside it, and a launcher of one line starts it with that. Nothing is installed.
set -euo pipefail
version=$1
folder=$(realpath -m "$2")
python=$folder/usr/bin/python$version
libraries=$folder/usr/lib/x86_64-linux-gnu
work=$(mktemp -d)
done=
trap 'rm -rf "$work"; [ "$done" ] || rm -rf "$folder"' EXIT

apt-get -qq update
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' | head -1)
mkdir -p "$work/lists/partial" "$work/archives/partial" "$folder"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" > "$work/sources.list"
newest=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists"
    -o Dir::State::status=/dev/null -o "Dir::Cache=$work" -o APT::Sandbox::User=root)
apt-get "${newest[@]}" -qq update
apt-get "${newest[@]}" -qq install -y --no-install-recommends --download-only "python$version" "libpython$version-dev"
for package in "$work"/archives/*.deb; do dpkg-deb --extract "$package" "$folder"; done

echo 'int Py_BytesMain(int, char **); int main(int n, char **words) { return Py_BytesMain(n, words); }' > "$work/launch.c"
gcc "$work/launch.c" -o "$python" "$libraries/libpython$version.so.1.0" -Wl,--allow-shlib-undefined \
    -Wl,--disable-new-dtags,-rpath,"$libraries" -Wl,--dynamic-linker,"$libraries/ld-linux-x86-64.so.2"
"$python" -c 'import bz2, ctypes, lzma, sqlite3, ssl, sys, zlib; print("fetched", sys.version)'
done=yes
