// The concurrent hash map of Threading Building Blocks, with its own allocator.
#include "hash.hpp"

#include <tbb/concurrent_hash_map.h>
#include <tbb/scalable_allocator.h>
#include <tbb/version.h>

struct Map {
    using Table = tbb::concurrent_hash_map<uint64_t, uint64_t, tbb::tbb_hash_compare<uint64_t>,
                                           tbb::scalable_allocator<std::pair<const uint64_t, uint64_t>>>;
    explicit Map(uint64_t size) : table(size) {}
    void insert(uint64_t key, uint64_t value) { table.insert({key, value}); }
    void match(uint64_t key)
    {
        Table::accessor found;
        if (!table.insert(found, {key, key}))
            table.erase(found);
    }
    Table table;
};

int main()
{
    return peer::serve("TBB", TBB_VERSION_STRING, {{"hash", peer::hash<Map>}});
}
